// Package logtest keeps a log for tests that read it while it is written. Only
// tests import it.
package logtest

import (
	"strings"
	"sync"
)

// Log is what was written to it. The zero value is empty.
type Log struct {
	mu  sync.Mutex
	all strings.Builder
}

// Write never fails.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}
