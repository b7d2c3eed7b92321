package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/order"
)

// maxMistakes bounds how many mistakes Load collects and reports.
const maxMistakes = 50

// Mistakes holds all errors in a configuration, at least two. Those in the file come first, in the
// order of the file.
type Mistakes struct {
	found []error
	more  int
}

// Error returns the first mistake and the number of the others.
func (m *Mistakes) Error() string {
	first := m.found[0].Error()
	switch n := len(m.found) - 1 + m.more; {
	case n == 1:
		return first + " There is one more mistake; lilac config check tells all."
	default:
		return fmt.Sprintf("%s There are %d more mistakes; lilac config check tells all.", first, n)
	}
}

// Unwrap returns all reported mistakes.
func (m *Mistakes) Unwrap() []error { return m.found }

// Each returns the mistakes in an error of Load, in the order of the file, and the number of
// mistakes beyond [maxMistakes].
func Each(err error) (found []error, more int) {
	if all := (*Mistakes)(nil); errors.As(err, &all) {
		return all.found, all.more
	}
	return []error{err}, 0
}

// A mistake is an error with its position.
type mistake struct {
	err error
	at  place  // zero if the mistake is not in the file
	key string // that the mistake is about, or "" if it is not known
}

// asError returns nil for no mistakes, the error itself for one, and Mistakes for several.
func asError(all []mistake) error {
	order.By(all, func(a, b mistake) int {
		if nowhere := (place{}); (a.at == nowhere) != (b.at == nowhere) {
			return cmp.Compare(b.at.Line, a.at.Line)
		}
		return cmp.Or(cmp.Compare(a.at.Line, b.at.Line), cmp.Compare(a.at.Column, b.at.Column), strings.Compare(a.err.Error(), b.err.Error()))
	})
	all = slices.CompactFunc(all, func(a, b mistake) bool { return a.err.Error() == b.err.Error() })
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0].err
	}
	m := &Mistakes{}
	for _, one := range all[:min(len(all), maxMistakes)] {
		m.found = append(m.found, one.err)
	}
	m.more = len(all) - len(m.found)
	return m
}

// parts returns the errors that err joins, or err itself.
func parts(err error) []error {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var out []error
		for _, part := range joined.Unwrap() {
			out = append(out, parts(part)...)
		}
		return out
	}
	return []error{err}
}

// located prefixes a mistake with its source: the position in the file of the key or its nearest
// parent, or the name of the variable or flag.
func (c reader) located(err error) mistake {
	var f *fault.Error
	if !errors.As(err, &f) || f.Field == "" {
		return mistake{err: err}
	}
	for key := f.Field; key != ""; key = above(key) {
		if from, set := c.origin[key]; set && from != fromFile {
			placed := *f
			placed.Message = fmt.Sprintf("%s: %s", from, f.Message)
			return mistake{err: &placed, key: f.Field}
		}
		if at, ok := c.places[key]; ok {
			placed := *f
			placed.Message = fmt.Sprintf("%s:%d:%d: %s", c.File, at.Line, at.Column, f.Message)
			return mistake{err: &placed, at: at, key: f.Field}
		}
	}
	return mistake{err: err, key: f.Field}
}

// above returns the key or list that contains a key or an entry of a list.
func above(key string) string {
	if strings.HasSuffix(key, "]") {
		return key[:max(0, strings.LastIndexByte(key, '['))]
	}
	return key[:max(0, strings.LastIndexByte(key, '.'))]
}

// touches reports whether the keys are equal or one contains the other.
func touches(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	return strings.HasPrefix(b, a) && (len(a) == len(b) || b[len(a)] == '.' || b[len(a)] == '[')
}
