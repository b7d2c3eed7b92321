package program

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/text"
)

const (
	// maxLogLine bounds a logged line of the standard error, in bytes.
	maxLogLine = 1000
	// maxLogLines bounds what is logged about one program per minute.
	maxLogLines = 60
)

// errTooLong is the error of a line beyond the limit. The rest of the line was skipped.
var errTooLong = fault.New(fault.TooLarge, "The line is longer than maxBytes.")

// readLine returns the next line without its end. A line beyond limit bytes is skipped to
// its end and returned as errTooLong. The last line may have no end.
func readLine(r *bufio.Reader, limit int) ([]byte, error) {
	var line []byte
	tooLong := false
	for {
		part, err := r.ReadSlice('\n')
		if tooLong = tooLong || len(line)+len(bytes.TrimRight(part, "\r\n")) > limit; !tooLong {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case tooLong && (err == nil || errors.Is(err, io.EOF)):
			return nil, errTooLong
		case err != nil && (len(line) == 0 || !errors.Is(err, io.EOF)):
			return nil, err
		default:
			return bytes.TrimRight(line, "\r\n"), nil
		}
	}
}

// limitedLog logs at most maxLogLines lines per minute. It is safe for concurrent use.
type limitedLog struct {
	logger *slog.Logger
	now    func() time.Time

	mu sync.Mutex
	// window is the beginning of the current minute. lines counts its lines, and left
	// those that were not logged.
	window      time.Time
	lines, left int
}

func (l *limitedLog) log(level slog.Level, message string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := l.now(); now.Sub(l.window) >= time.Minute {
		l.summarizeLocked()
		l.window, l.lines = now, 0
	}
	if l.lines++; l.lines > maxLogLines {
		l.left++
		return
	}
	l.logger.Log(context.Background(), level, message, args...)
}

// summarize logs how many lines were left out.
func (l *limitedLog) summarize() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.summarizeLocked()
}

func (l *limitedLog) summarizeLocked() {
	if l.left > 0 {
		l.logger.Warn("a source caused too many lines of the log; the others were left out", "left_out", l.left, "per_minute", maxLogLines)
		l.left = 0
	}
}

// copy logs the lines of the standard error until it ends.
func (l *limitedLog) copy(r io.Reader) {
	in := bufio.NewReaderSize(r, maxLogLine)
	for {
		line, more, err := in.ReadLine()
		if err != nil {
			return
		}
		logged := text.SingleLine(text.Truncate(string(line), maxLogLine))
		for more && err == nil { // skip the rest of a long line
			_, more, err = in.ReadLine()
		}
		l.log(slog.LevelInfo, "a source printed to its standard error", "line", logged)
	}
}
