//go:build !linux

package backup

// corrupted reports whether a file system says that it is damaged itself.
func corrupted(error) bool { return false }
