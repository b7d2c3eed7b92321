//go:build unix

package cli

import (
	"io"
	"testing"

	"github.com/creack/pty"
)

// In a real terminal, a question whose answer is not shown reads a line without its echo, and ends at Ctrl-D.
func TestAHiddenQuestionEndsAtCtrlD(t *testing.T) {
	keyboard, terminal, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer keyboard.Close()
	defer terminal.Close()
	press := func(keys string) {
		if _, err := io.WriteString(keyboard, keys); err != nil {
			t.Fatal(err)
		}
	}
	q := newQuestioner(t.Context(), terminal, io.Discard)
	press("a key\n")
	if key := q.secret("API key"); key.Reveal() != "a key" || q.ctx.Err() != nil {
		t.Errorf("it reads %q, %v", key.Reveal(), q.ctx.Err())
	}
	press("half\x04\x04")
	if key := q.secret("API key"); key.Set() || q.ctx.Err() == nil {
		t.Errorf("after Ctrl-D, it reads %q, %v", key.Reveal(), q.ctx.Err())
	}
}
