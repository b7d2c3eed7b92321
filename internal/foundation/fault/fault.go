package fault

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// A Kind classifies an error.
type Kind string

// The kinds of errors.
const (
	// Internal is a defect in Lilac, and the default for an unclassified error.
	Internal Kind = "internal"
	// Invalid means that the input is not acceptable.
	Invalid Kind = "invalid"
	// Unauthenticated means that a credential is missing or wrong.
	Unauthenticated Kind = "unauthenticated"
	// Denied means that the authenticated caller lacks permission.
	Denied Kind = "denied"
	// NotFound means that the resource does not exist.
	NotFound Kind = "not_found"
	// NotAllowed means that the resource does not support this HTTP method.
	NotAllowed Kind = "method_not_allowed"
	// Conflict means that the current state does not allow the operation.
	Conflict Kind = "conflict"
	// TooLarge means that the input exceeds a size limit.
	TooLarge Kind = "too_large"
	// Gone means that the resource has expired and was deleted.
	Gone Kind = "gone"
	// RateLimited means that the caller must retry later.
	RateLimited Kind = "rate_limited"
	// Unavailable means that a dependency does not respond or is overloaded.
	Unavailable Kind = "unavailable"
	// Timeout means that the operation exceeded its time limit.
	Timeout Kind = "timeout"
	// Cancelled means that a person or the program stopped the operation.
	Cancelled Kind = "cancelled"
	// LimitReached means that a configured limit was reached (steps, tokens, money, time).
	LimitReached Kind = "limit_reached"
)

type kindFacts struct {
	status    int
	exit      int
	retryable bool
}

var kinds = map[Kind]kindFacts{
	Internal:        {500, 1, false},
	Invalid:         {400, 2, false},
	Unauthenticated: {401, 3, false},
	Denied:          {403, 3, false},
	NotFound:        {404, 4, false},
	NotAllowed:      {405, 2, false},
	Conflict:        {409, 5, false},
	TooLarge:        {413, 2, false},
	Gone:            {410, 4, false},
	RateLimited:     {429, 6, true},
	Unavailable:     {503, 6, true},
	Timeout:         {504, 7, true},
	Cancelled:       {499, 8, false},
	LimitReached:    {429, 1, false},
}

// Valid reports whether k is a kind of this package.
func (k Kind) Valid() bool { _, ok := kinds[k]; return ok }

// HTTPStatus returns the HTTP status code of the kind.
func (k Kind) HTTPStatus() int { return k.facts().status }

// ExitCode returns the exit code of a command that fails with the kind.
func (k Kind) ExitCode() int { return k.facts().exit }

// Retryable reports whether the same call may succeed later.
func (k Kind) Retryable() bool { return k.facts().retryable }

func (k Kind) facts() kindFacts {
	if f, ok := kinds[k]; ok {
		return f
	}
	return kinds[Internal]
}

// An Error is an error with a kind and a message for people.
type Error struct {
	Kind Kind
	// Code is a stable identifier within the kind, in snake_case. It may be empty.
	Code string
	// Message says to people what is wrong and what to do.
	Message string
	// Field names the invalid input field. It may be empty.
	Field string
	// RetryAfter is the time that the remote side asked to wait before a retry, or zero.
	RetryAfter time.Duration
	// Err is the cause, for the logs only. It may be nil.
	Err error
}

// Error returns the message and the cause, for the logs. [Plain] returns them for people.
func (e *Error) Error() string {
	if e.Err == nil {
		return e.Message
	}
	return e.because(e.Err.Error())
}

// because adds a cause to the message. A message of complete sentences keeps its full stop, and
// the cause does not look like a part of the command at its end.
func (e *Error) because(cause string) string {
	if strings.HasSuffix(e.Message, ".") || strings.Contains(e.Message, ". ") {
		return e.Message + " (" + cause + ")"
	}
	return e.Message + ": " + cause
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// New returns an error of a kind. It formats the message with [fmt.Sprintf].
//
// New, [Wrap] and [InvalidField] have a thousand callers. Copies of their bodies in each of them would
// make the program 160 KB larger.
//
//go:noinline
func New(kind Kind, format string, args ...any) *Error {
	return &Error{Kind: kind, Message: fmt.Sprintf(format, args...)}
}

// Wrap returns an error of a kind with the cause err.
//
//go:noinline
func Wrap(kind Kind, err error, format string, args ...any) *Error {
	return &Error{Kind: kind, Message: fmt.Sprintf(format, args...), Err: err}
}

// InvalidField returns an Invalid error that names the invalid field.
//
//go:noinline
func InvalidField(field, format string, args ...any) *Error {
	return &Error{Kind: Invalid, Field: field, Message: fmt.Sprintf(format, args...)}
}

// InField returns an error about the invalid content of a field, with the message of
// err, and nil for nil.
func InField(field string, err error) error {
	if err == nil {
		return nil
	}
	return InvalidField(field, "%s", ToWire(err).Message)
}

// KindOf returns the kind of the first [Error] in the chain of err. Without one, it returns
// the kind that matches a context error, or else Internal. For nil it returns "".
func KindOf(err error) Kind {
	if err == nil {
		return ""
	}
	var e *Error
	switch {
	case errors.As(err, &e):
		if !e.Kind.Valid() {
			return Internal
		}
		return e.Kind
	case errors.Is(err, context.DeadlineExceeded):
		return Timeout
	case errors.Is(err, context.Canceled):
		return Cancelled
	}
	return Internal
}

// RetryAfterOf returns the time that the remote side asked to wait before a retry. It returns
// zero if there is none or if err is not an *Error.
func RetryAfterOf(err error) time.Duration {
	var e *Error
	if errors.As(err, &e) {
		return e.RetryAfter
	}
	return 0
}

// Wire is an error in the form that clients receive. It never contains the cause.
type Wire struct {
	Kind      Kind   `json:"kind"`
	Code      string `json:"code,omitempty"`
	Message   string `json:"message"`
	Field     string `json:"field,omitempty"`
	Retryable bool   `json:"retryable"`
}

// ToWire converts err to the form for clients. An unclassified error gets a generic message,
// because its text may contain internal details.
func ToWire(err error) Wire {
	var e *Error
	if errors.As(err, &e) {
		kind := KindOf(e)
		return Wire{Kind: kind, Code: e.Code, Message: e.Message, Field: e.Field, Retryable: kind.Retryable()}
	}
	kind := KindOf(err)
	message := "Something went wrong inside Lilac; its log has the details."
	switch kind {
	case Timeout:
		message = "It took too long and was given up."
	case Cancelled:
		message = "It was cancelled."
	}
	return Wire{Kind: kind, Message: message, Retryable: kind.Retryable()}
}

// FromWire converts an error response of a server to an error.
func FromWire(w Wire) *Error {
	kind := w.Kind
	if !kind.Valid() {
		kind = Internal
	}
	return &Error{Kind: kind, Code: w.Code, Message: w.Message, Field: w.Field}
}
