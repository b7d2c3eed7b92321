package bus

import "errors"

// Permanent marks a failure that no retry can mend, such as a command that is
// malformed: the event goes to the dead letters at once, with err as its
// reason, and its lane goes on. It returns nil for nil.
//
// It is a wrapper of its own and not a fault.Kind, because a kind tells what
// went wrong somewhere below: an invalid setting is mended by a restart, and
// only the handler knows that the event itself is at fault.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanent{err}
}

// IsPermanent reports whether a handler's error was marked by [Permanent].
func IsPermanent(err error) bool {
	var p *permanent
	return errors.As(err, &p)
}

type permanent struct{ err error }

// Error is the text of the marked failure.
func (p *permanent) Error() string { return p.err.Error() }

// Unwrap returns the marked failure.
func (p *permanent) Unwrap() error { return p.err }
