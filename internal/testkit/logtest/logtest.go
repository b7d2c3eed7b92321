// Package logtest provides a log that tests can read while it is being written. Only tests import
// it.
package logtest

import (
	"strings"
	"sync"
)

// A Log collects everything that is written to it. The zero value is an empty log.
type Log struct {
	mu  sync.Mutex
	all strings.Builder
}

// Write appends p to the log. It never fails.
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
