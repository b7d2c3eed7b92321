package bus

import "errors"

// Permanent marks a failure that no retry can fix, such as a malformed command:
// the event becomes a dead letter at once, with err as its reason, and its lane
// continues. It returns nil for nil.
//
// It is not a fault.Kind, because a kind describes a failure in a lower layer: a
// restart can fix an invalid setting, and only the handler knows that the event
// itself is at fault.
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

// Error returns the text of the marked failure.
func (p *permanent) Error() string { return p.err.Error() }

// Unwrap returns the marked failure.
func (p *permanent) Unwrap() error { return p.err }
