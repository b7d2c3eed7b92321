package terminal

import (
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"

	"lilac/internal/foundation/event"
	"lilac/internal/operate/transcript"
)

func TestEscAndCtrlC(t *testing.T) {
	d := talking(t)
	d.press("esc")
	d.want(Stop{"s1", "terminal:s1:m1"})
	d.shows("Stopping")
	d.event(event.StreamCompleted, `{"requestId":"terminal:s1:m1","content":"","cancelled":true}`)
	d.shows("◆ Stopped")
	d.typed("draft")
	d.press("ctrl+c")
	d.want()
	if d.m.prompt.value() != "" {
		t.Error("Ctrl+C did not clear the input")
	}
	d.press("up")
	if d.m.prompt.value() != "draft" {
		t.Error("the cleared input cannot be recalled")
	}
	d.press("ctrl+c", "ctrl+c")
	d.want()
	d.shows("To leave, press Ctrl+C again.")
	d.press("ctrl+c")
	d.want(Leave{})
}

func TestHistory(t *testing.T) {
	d := newDesk(t, 80, 30)
	d.send(Recalled{[]string{"first", "second"}})
	d.typed("draft")
	d.press("up", "up", "up")
	if got := d.m.prompt.value(); got != "first" {
		t.Errorf("recalled %q", got)
	}
	d.press("down", "down", "down")
	if got := d.m.prompt.value(); got != "draft" {
		t.Errorf("after the last one comes %q", got)
	}
}

func TestMultiLineInputAndPastedTextAreOneMessage(t *testing.T) {
	long := strings.Repeat("line\n", 40) + "end"
	for name, c := range map[string]struct {
		do   func(d *desk)
		want string
	}{
		"Alt+Enter":       {func(d *desk) { d.typed("a"); d.press("alt+enter"); d.typed("b") }, "a\nb"},
		"a backslash":     {func(d *desk) { d.typed(`a\`); d.press("enter"); d.typed("b") }, "a\nb"},
		"a paste":         {func(d *desk) { d.send(tea.PasteMsg{Content: "a\r\n/quit\r\nb"}) }, "a\n/quit\nb"},
		"a long paste":    {func(d *desk) { d.typed("see: "); d.send(tea.PasteMsg{Content: long}) }, "see: " + long},
		"a dropped file":  {func(d *desk) { d.send(tea.PasteMsg{Content: `/tmp/a\ b.png`}) }, `@"/tmp/a b.png"`},
		"escape is data":  {func(d *desk) { d.send(tea.PasteMsg{Content: "a\x1b[2Jb"}) }, "a[2Jb"},
		"a pasted path":   {func(d *desk) { d.send(tea.PasteMsg{Content: "/tmp/notes.txt"}); d.press("home"); d.typed("") }, ""},
		"text of a slash": {func(d *desk) { d.typed("a /quit") }, "a /quit"},
	} {
		t.Run(name, func(t *testing.T) {
			d := talking(t)
			c.do(d)
			d.hides("line\nline")
			d.press("enter")
			if c.want == "" {
				d.want()
				return
			}
			var sent []string
			for _, e := range d.take() {
				if s, ok := e.(Send); ok {
					sent = append(sent, s.Text)
				}
			}
			if len(sent) != 1 || sent[0] != c.want {
				t.Errorf("sent %q, want %q", sent, c.want)
			}
		})
	}
}

func TestFilesAreCompleted(t *testing.T) {
	d := newDesk(t, 80, 30)
	d.take()
	d.typed("see @no")
	d.send(Found{Prefix: "no", Names: []string{"notes.txt", "november/"}}, Found{Prefix: "n", Names: []string{"late.txt"}})
	d.shows("❯ notes.txt", "  november/")
	d.hides("late.txt")
	d.press("down", "enter")
	if got := d.m.prompt.value(); got != "see @november/" {
		t.Errorf("the input is %q", got)
	}
	d.send(Found{Prefix: "november/", Names: []string{"november/a b.txt"}})
	d.press("tab")
	if got := d.m.prompt.value(); got != `see @"november/a b.txt" ` {
		t.Errorf("the input is %q", got)
	}
	d.hides("❯")
}

// Ctrl+D leaves at any time, also while something covers the input.
func TestCtrlDLeavesWhateverIsOpen(t *testing.T) {
	for name, open := range map[string]func(*desk){
		"a list":         func(d *desk) { d.m, d.effects = d.m.choose("session") },
		"everything":     func(d *desk) { d.press("ctrl+o") },
		"control: input": func(*desk) {},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, 80, 30)
			open(d)
			d.take()
			d.press("ctrl+d")
			d.want(Leave{})
		})
	}
}

func TestAConversationIsChosen(t *testing.T) {
	d := newDesk(t, 80, 30)
	d.take()
	d.m, d.effects = d.m.choose("session")
	d.want(List{What: "session"})
	d.shows("Loading…")
	d.send(Listed{What: "session", Items: []Item{{"s8", "About cats", "1 h ago"}, {"s9", "About dogs\x1b[2J", "2 h ago"}}})
	d.shows("❯ About cats", "  About dogs")
	d.typed("dog")
	d.hides("cats")
	d.press("enter")
	d.want(Open{"s9"})
	d.send(Opened{Session: "s9", Title: "About dogs", Cursor: "c1", History: []transcript.Entry{
		{Kind: "user", Text: "hi", Files: []string{"a.png"}}, {Kind: "thinking", Text: "hm"}, {Kind: "tool", ToolName: "bash", Text: "ls", Output: "x"}, {Kind: "answer", Text: "*hello*"}, {Kind: "note", Text: "Event x"},
	}})
	d.want(Follow{"s9", "c1"})
	d.shows("◆ Continuing About dogs", "› hi\n  ⊕ a.png", "✻ Thought", "● bash ls\n  └ x", "  hello", "◆ Event x")
}
