package logs_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lilac/internal/telemetry/logs"
)

// gate is a reader of the log that hangs until it is opened.
type gate struct {
	open chan struct{}
	out  bytes.Buffer
	err  error
}

func (g *gate) Write(p []byte) (int, error) {
	<-g.open
	if g.err != nil {
		return 0, g.err
	}
	return g.out.Write(p)
}

func TestLogLinesAreWrittenInOrder(t *testing.T) {
	var out bytes.Buffer
	l := logs.NewLossyWriter(&out)
	var want strings.Builder
	for i := range 1000 {
		fmt.Fprintf(l, "line %d\n", i)
		fmt.Fprintf(&want, "line %d\n", i)
	}
	l.Close(time.Minute)
	if out.String() != want.String() || l.Lost() != 0 || l.Trouble() != "" {
		t.Errorf("%d bytes of %d, %d lost, %q", out.Len(), want.Len(), l.Lost(), l.Trouble())
	}
}

func TestHungReaderOfTheLogBlocksNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{open: make(chan struct{})}
		l := logs.NewLossyWriter(g)
		line := []byte(strings.Repeat("x", 1023) + "\n")
		if _, err := l.Write(line); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // the first line is in its write
		if got := l.Trouble(); got != "" {
			t.Errorf("at once: %q", got)
		}
		time.Sleep(6 * time.Second)
		if got := l.Trouble(); !strings.Contains(got, "does not read") {
			t.Errorf("after six seconds: %q", got)
		}
		const lines = 2 << 10 // two megabytes, of which one fits
		for range lines {
			if n, err := l.Write(line); n != len(line) || err != nil {
				t.Fatal(n, err)
			}
		}
		if got := l.Lost(); got < lines/2 || got > lines/2+2 {
			t.Errorf("%d of %d lines are lost, want about half", got, lines)
		}
		before := time.Now()
		l.Close(time.Second)
		if waited := time.Since(before); waited != time.Second {
			t.Errorf("the end waited %s for the reader", waited)
		}
		close(g.open)
		synctest.Wait()
		if got := int64(g.out.Len()/len(line)) + l.Lost(); got != lines+1 {
			t.Errorf("%d lines are written or counted, want %d", got, lines+1)
		}
		if got := l.Trouble(); !strings.Contains(got, "log lines are lost") {
			t.Errorf("after the reader continues: %q", got)
		}
		time.Sleep(15 * time.Minute)
		if got := l.Trouble(); got != "" {
			t.Errorf("much later: %q", got)
		}
	})
}

func TestLogLinesThatCannotBeWrittenAreCounted(t *testing.T) {
	g := &gate{open: make(chan struct{}), err: errors.New("broken pipe")}
	close(g.open)
	l := logs.NewLossyWriter(g)
	_, _ = l.Write([]byte("one\n"))
	l.Close(time.Minute)
	_, _ = l.Write([]byte("after the end\n"))
	if l.Lost() != 2 {
		t.Errorf("%d lost", l.Lost())
	}
}
