package mcpclient

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// What a server prints beside its messages must not end the connection.
func TestTextAmongMessagesIsSkipped(t *testing.T) {
	const message, batch = `{"jsonrpc":"2.0","id":1,"result":{}}`, ` [{"jsonrpc":"2.0","id":1,"result":{}}]`
	input := "Starting…\n\n" + message + "\r\n" + `{"level":"info"}` + "\n[1,2]\n{}\n[]\nnull\n{\"jsonrpc\n" + batch + "\nlast\n" + message
	for _, size := range []int{1, 7, len(input)} {
		var messages, other bytes.Buffer
		w := &messageWriter{to: &messages, other: &other, limit: 100}
		for piece := range slices.Chunk([]byte(input), size) {
			if n, err := w.Write(piece); err != nil || n != len(piece) {
				t.Fatal(n, err)
			}
		}
		if err := w.flush(); err != nil {
			t.Fatal(err)
		}
		if got, want := messages.String(), message+"\r\n"+batch+"\n"+message; got != want {
			t.Errorf("in pieces of %d, the messages are %q", size, got)
		}
		if !strings.HasPrefix(other.String(), "Starting…\n") || !strings.HasSuffix(other.String(), "last\n") {
			t.Errorf("in pieces of %d, the rest is %q", size, other.String())
		}
	}
	// The reader refuses a line without an end.
	var messages bytes.Buffer
	w := &messageWriter{to: &messages, limit: 100}
	if _, err := w.Write(bytes.Repeat([]byte("x"), 101)); err != nil || messages.Len() != 101 {
		t.Errorf("of a long line, the reader gets %d bytes, %v", messages.Len(), err)
	}
}

func TestAServerThatPrintsTextWorks(t *testing.T) {
	s := serve(t, Options{}, map[string]ServerConfig{"fake": stdioFake(t, "talks")})
	for range 2 {
		got, err := s.Call(t.Context(), "fake", "emit", input(t, map[string]any{"text": "hi"}), People{})
		if err != nil || got.texts() != "emitted" {
			t.Fatalf("a call: %+v, %v; %+v", got, err, s.Status())
		}
	}
}
