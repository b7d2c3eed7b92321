// Package lazyregexp compiles regular expressions when they are first used. Otherwise,
// every start of the program would compile those in package variables. It is safe for
// concurrent use.
package lazyregexp

import (
	"regexp"
	"sync"
)

// New returns a function that returns the compiled expression. The function panics if the
// expression is invalid. It is not inlined, because each of the many package variables would
// have a copy of [sync.OnceValue] in the program.
//
//go:noinline
func New(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
