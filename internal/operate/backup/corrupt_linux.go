package backup

import (
	"errors"
	"syscall"
)

// corrupted reports whether a file system says that it is damaged itself.
func corrupted(err error) bool { return errors.Is(err, syscall.EUCLEAN) }
