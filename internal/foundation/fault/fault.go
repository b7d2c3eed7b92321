package fault

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Kind says what sort of trouble an error is.
type Kind string

// The kinds of trouble.
const (
	// Internal is a defect of ours; the default for an unclassified error.
	Internal Kind = "internal"
	// Invalid is input that cannot be accepted as it is.
	Invalid Kind = "invalid"
	// Unauthenticated is a missing or wrong credential.
	Unauthenticated Kind = "unauthenticated"
	// Denied is a caller who is known and may not do this.
	Denied Kind = "denied"
	// NotFound is a thing that does not exist.
	NotFound Kind = "not_found"
	// NotAllowed is a thing that exists and does not take this method.
	NotAllowed Kind = "method_not_allowed"
	// Conflict is a state that does not allow the operation now.
	Conflict Kind = "conflict"
	// TooLarge is input over a size limit.
	TooLarge Kind = "too_large"
	// Gone is something that existed and was removed by age.
	Gone Kind = "gone"
	// RateLimited asks the caller to come back later.
	RateLimited Kind = "rate_limited"
	// Unavailable is a dependency that does not answer or is overloaded.
	Unavailable Kind = "unavailable"
	// Timeout is work that took longer than its limit.
	Timeout Kind = "timeout"
	// Cancelled is work that somebody stopped.
	Cancelled Kind = "cancelled"
	// LimitReached is a configured cap (steps, tokens, money, time).
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

// Valid reports whether k is one of the kinds of this package.
func (k Kind) Valid() bool { _, ok := kinds[k]; return ok }

// HTTPStatus is the status code that a route answers with.
func (k Kind) HTTPStatus() int { return k.facts().status }

// ExitCode is what a command exits with.
func (k Kind) ExitCode() int { return k.facts().exit }

// Retryable reports whether the same call may succeed later.
func (k Kind) Retryable() bool { return k.facts().retryable }

func (k Kind) facts() kindFacts {
	if f, ok := kinds[k]; ok {
		return f
	}
	return kinds[Internal]
}

// Error is an error with a kind and a sentence for a person.
type Error struct {
	Kind Kind
	// Code is a stable identifier within the kind, snake_case; it may be empty.
	Code string
	// Message is a sentence for a person: what is wrong and what to do.
	Message string
	// Field names the input that is at fault; it may be empty.
	Field string
	// RetryAfter is how long the other side asked us to wait; zero when it did not say.
	RetryAfter time.Duration
	// Err is the cause, for logs only; it may be nil.
	Err error
}

// Error joins the message and the cause. A message of whole sentences keeps
// its full stop.
func (e *Error) Error() string {
	switch {
	case e.Err == nil:
		return e.Message
	case strings.HasSuffix(e.Message, "."):
		return e.Message + " (" + e.Err.Error() + ")"
	}
	return e.Message + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// New returns an error of kind with a sentence made by [fmt.Sprintf].
func New(kind Kind, format string, args ...any) *Error {
	return &Error{Kind: kind, Message: fmt.Sprintf(format, args...)}
}

// Wrap returns an error of kind whose cause is err.
func Wrap(kind Kind, err error, format string, args ...any) *Error {
	return &Error{Kind: kind, Message: fmt.Sprintf(format, args...), Err: err}
}

// InvalidField returns an Invalid error that names the field at fault.
func InvalidField(field, format string, args ...any) *Error {
	return &Error{Kind: Invalid, Field: field, Message: fmt.Sprintf(format, args...)}
}

// KindOf returns the kind of err: of the first [Error] in its chain, else by
// context errors, else Internal. It returns "" for nil.
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

// RetryAfterOf returns how long the other side asked us to wait, zero when it did
// not say or err is no *Error.
func RetryAfterOf(err error) time.Duration {
	var e *Error
	if errors.As(err, &e) {
		return e.RetryAfter
	}
	return 0
}

// Wire is an error as clients see it. It never holds the cause.
type Wire struct {
	Kind      Kind   `json:"kind"`
	Code      string `json:"code,omitempty"`
	Message   string `json:"message"`
	Field     string `json:"field,omitempty"`
	Retryable bool   `json:"retryable"`
}

// ToWire returns what a client may see of err. An unclassified error becomes
// a general sentence: its text may hold what is not the client's to know.
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

// FromWire turns what a server answered back into an error.
func FromWire(w Wire) *Error {
	kind := w.Kind
	if !kind.Valid() {
		kind = Internal
	}
	return &Error{Kind: kind, Code: w.Code, Message: w.Message, Field: w.Field}
}
