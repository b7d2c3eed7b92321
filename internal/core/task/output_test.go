package task

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
)

// write fills an output in pieces of all sizes.
func write(t *testing.T, dir string, limit int64, text string) *outputLog {
	t.Helper()
	l, err := newLog(dir, limit)
	if err != nil {
		t.Fatal(err)
	}
	for i, rest := 1, text; rest != ""; i++ {
		n := min(i%37+1, len(rest))
		_, _ = l.Write([]byte(rest[:n]))
		rest = rest[n:]
	}
	return l
}

func size(t *testing.T, dir string) (n int64) {
	t.Helper()
	all, err := segmentsIn(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		n += s.size
	}
	return n
}

func TestAnOutputIsReadWhileItIsWritten(t *testing.T) {
	dir := t.TempDir()
	l := write(t, dir, 1000, "first line\nsecond line\n")
	for _, c := range []struct {
		offset int64
		limit  int
		want   OutputPart
	}{
		{0, 5, OutputPart{Text: "first", Next: 5, Bytes: 23}},
		{5, 100, OutputPart{Text: " line\nsecond line\n", Offset: 5, Next: 23, Bytes: 23}},
		{-5, 100, OutputPart{Text: "line\n", Offset: 18, Next: 23, Bytes: 23}},
		{-100, 100, OutputPart{Text: "first line\nsecond line\n", Next: 23, Bytes: 23}},
		{23, 100, OutputPart{Offset: 23, Next: 23, Bytes: 23}},
		{99, 100, OutputPart{Offset: 23, Next: 23, Bytes: 23}},
	} {
		if got, err := readOutput(dir, c.offset, c.limit); err != nil || got != c.want {
			t.Errorf("from %d, %d bytes: %+v, %v", c.offset, c.limit, got, err)
		}
	}
	if n, line := l.progress(); n != 23 || line != "second line" {
		t.Errorf("the progress is %d %q", n, line)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

func TestOfALongOutputTheNewestPartIsKept(t *testing.T) {
	dir := t.TempDir()
	var all strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&all, "line %d\n", i)
	}
	text := all.String()
	if err := write(t, dir, 4000, text).Close(); err != nil {
		t.Fatal(err)
	}
	if n := size(t, dir); n > 4000 || n < 3000 {
		t.Errorf("%d bytes are kept", n)
	}
	p, err := readOutput(dir, 0, 1<<20)
	if err != nil || p.Bytes != int64(len(text)) || p.First == 0 || p.Text != text[p.First:] || p.Offset != p.First {
		t.Errorf("got %d of %d bytes from %d on, %v", len(p.Text), p.Bytes, p.First, err)
	}
}

func TestOutputIsCleanAndCharactersStayWhole(t *testing.T) {
	dir := t.TempDir()
	if err := write(t, dir, 400, "\x1b[31mred\x1b[0m \xff 日本語日本語").Close(); err != nil {
		t.Fatal(err)
	}
	want := "red \ufffd 日本語日本語"
	whole, err := readOutput(dir, 0, 1000)
	if err != nil || whole.Text != want {
		t.Errorf("got %q, %v", whole.Text, err)
	}
	for limit := 4; limit < 12; limit++ {
		var text string
		for at := int64(0); at < whole.Bytes; {
			p, err := readOutput(dir, at, limit)
			if err != nil || p.Offset != at || p.Next == at {
				t.Fatalf("from %d, %d bytes: %+v, %v", at, limit, p, err)
			}
			text, at = text+p.Text, p.Next
		}
		if text != want {
			t.Errorf("in pieces of %d it is %q", limit, text)
		}
	}
}

// What is read of an output that grows beyond its bound is always a piece of it.
func TestReadersSeePiecesOfWhatIsWritten(t *testing.T) {
	dir := t.TempDir()
	l, err := newLog(dir, 4096)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				p, err := readOutput(dir, -500, 500)
				if err != nil {
					t.Error(err)
					return
				}
				for i := 1; i < len(p.Text); i++ {
					if p.Text[i] != 'a'+(p.Text[i-1]-'a'+1)%26 {
						t.Errorf("at %d of %d it reads %q", p.Offset, p.Bytes, p.Text)
						return
					}
				}
			}
		})
	}
	alphabet := []byte("abcdefghijklmnopqrstuvwxyz")
	for range 4000 {
		_, _ = l.Write(alphabet)
	}
	close(stop)
	wg.Wait()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

func TestAnOutputThatCannotBeKeptStopsNobody(t *testing.T) {
	dir := t.TempDir()
	l := write(t, dir, 40, "some")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if n, err := l.Write([]byte(strings.Repeat("x", 100))); n != 100 || err != nil {
		t.Errorf("wrote %d, %v", n, err)
	}
	if l.Close() == nil {
		t.Error("nobody is told that the output was not kept")
	}
}
