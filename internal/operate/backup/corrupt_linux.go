package backup

import (
	"errors"
	"syscall"
)

// corrupted reports whether the file system reported its own corruption.
func corrupted(err error) bool { return errors.Is(err, syscall.EUCLEAN) }
