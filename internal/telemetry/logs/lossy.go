package logs

import (
	"io"
	"sync/atomic"
)

// LossyWriter writes log lines and counts those that cannot be written, for
// example because the process that read the log has ended. Logging goes on, and
// lines are written again as soon as that is possible. It is safe for concurrent
// use if its writer is.
type LossyWriter struct {
	to   io.Writer
	lost atomic.Int64
}

// NewLossyWriter returns a writer to w.
func NewLossyWriter(w io.Writer) *LossyWriter { return &LossyWriter{to: w} }

// Write writes one line. It never fails.
func (l *LossyWriter) Write(line []byte) (int, error) {
	if _, err := l.to.Write(line); err != nil {
		l.lost.Add(1)
	}
	return len(line), nil
}

// Lost returns the number of lines that could not be written.
func (l *LossyWriter) Lost() int64 { return l.lost.Load() }
