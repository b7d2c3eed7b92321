// Package lazyregexp compiles regular expressions when they are first used.
// Those of package variables would else be compiled by every command, before it
// does anything.
package lazyregexp

import (
	"regexp"
	"sync"
)

// New returns a function that returns the compiled expression. It panics, at
// its first call, on an expression that is none.
func New(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
