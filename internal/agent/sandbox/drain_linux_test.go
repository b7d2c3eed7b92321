package sandbox

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

// After its deadline, a drain still reads the bytes that the pipe holds, but no later ones.
func TestWhatWasWrittenBeforeTheDeadlineIsRead(t *testing.T) {
	for name, c := range map[string]struct {
		written int
		closed  bool
		want    int
		end     error
	}{
		"nobody writes any more": {written: 100, closed: true, want: 100, end: nil},
		"somebody may write":     {written: 100, want: 100, end: os.ErrDeadlineExceeded},
		"nothing is there":       {end: os.ErrDeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			read, write, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer read.Close()
			defer write.Close()
			if _, err := write.WriteString(strings.Repeat("x", c.written)); err != nil {
				t.Fatal(err)
			}
			if c.closed {
				write.Close()
			}
			if err := read.SetReadDeadline(time.Now().Add(-time.Second)); err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(&drain{from: read, left: pipeBytes})
			if len(got) != c.want || !errors.Is(err, c.end) {
				t.Errorf("%d bytes, %v; want %d, %v", len(got), err, c.want, c.end)
			}
		})
	}
	t.Run("somebody writes for ever", func(t *testing.T) {
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		written := make(chan struct{})
		go func() {
			defer close(written)
			for err := error(nil); err == nil; {
				_, err = write.WriteString(strings.Repeat("x", 1000))
			}
		}()
		if err := read.SetReadDeadline(time.Now().Add(-time.Second)); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(&drain{from: read, left: pipeBytes})
		if len(got) > pipeBytes || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		read.Close()
		<-written
		write.Close()
	})
}
