package terminal

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"pgregory.net/rapid"

	"lilac/internal/foundation/event"
)

func TestAnOutageIsShown(t *testing.T) {
	d := talking(t)
	d.send(Tick{At: start.Add(time.Second)})
	d.want()
	d.send(Tick{At: start.Add(6 * time.Second)})
	d.want(Check{})
	d.send(Tick{At: start.Add(7 * time.Second)})
	d.want() // one check at a time
	d.send(Outage{Reason: "Redis cannot be reached"})
	d.shows("Waiting: Redis cannot be reached")
	d.event(event.StreamText, delta(0, "x"))
	d.hides("Redis")
}

// The lines that leave the changing part are printed once, and nothing is lost between them
// and the rest.
func TestEveryLineIsShownOnce(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		d := talking(t)
		rows := rapid.IntRange(10, 40).Draw(r, "rows")
		d.send(tea.WindowSizeMsg{Width: 80, Height: rows})
		full := ""
		for i := range rapid.IntRange(1, 80).Draw(r, "lines") {
			line := fmt.Sprintf("line-%d.\n\n", i)
			d.event(event.StreamText, delta(len(full), line))
			full += line
			if rapid.IntRange(0, 9).Draw(r, "overlay") == 0 {
				d.press("ctrl+o", "ctrl+o")
			}
			if h := len(strings.Split(d.m.View().Content, "\n")); h >= rows && !d.m.overlay.open {
				r.Fatalf("the changing part has %d lines on a terminal of %d", h, rows)
			}
		}
		d.event(event.StreamCompleted, fmt.Sprintf(`{"requestId":"terminal:s1:m1","content":%q}`, full))
		for n := range 4 {
			d.send(Tick{At: start.Add(time.Duration(n) * time.Second)})
		}
		d.press("ctrl+d")
		for i := range strings.Count(full, "line-") {
			if n := strings.Count(d.screen(), fmt.Sprintf("line-%d.", i)); n != 1 {
				r.Fatalf("line %d is shown %d times:\n%s", i, n, d.screen())
			}
		}
	})
}

// Nothing that comes from outside reaches the terminal as a control character.
func TestHostileTextIsData(t *testing.T) {
	const hostile = `a\u001b]0;title\u0007\u001b[2J\u009b31m\u202eb`
	d := talking(t)
	d.event(event.UserQuery, `{"content":"`+hostile+`","messageId":"m9","requestId":"web:s1:m9","queue":"prompt"}`)
	d.event(event.StreamReasoning, `{"requestId":"terminal:s1:m1","content":"`+hostile+`"}`)
	d.event(event.StreamText, `{"requestId":"terminal:s1:m1","offset":0,"content":"`+hostile+` &#27;[2J"}`)
	for _, status := range []string{"start", "end"} {
		d.event(event.StreamToolCall, `{"requestId":"terminal:s1:m1","toolCallId":"c1","name":"`+hostile+`","display":"`+hostile+`","output":"`+hostile+`","status":"`+status+`"}`)
	}
	d.event(event.StreamFile, `{"requestId":"terminal:s1:m1","filename":"`+hostile+`","path":"`+hostile+`"}`)
	d.event("stream.gap", `{"message":"`+hostile+`"}`)
	d.event(event.SessionUpdated, `{"title":"`+hostile+`"}`)
	d.event(event.SessionPaused, `{"requestId":"terminal:s1:m1","question":"`+hostile+`","kind":"question","choices":["`+hostile+`"]}`)
	check := func() {
		t.Helper()
		v := d.m.View()
		for _, s := range append(d.printed, v.Content, v.WindowTitle) {
			for _, r := range sgr().ReplaceAllString(s, "") {
				if r != '\n' && (r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r == 0x202e) {
					t.Fatalf("%q reaches the terminal in %q", r, s)
				}
			}
		}
	}
	check()
	d.press("ctrl+o")
	check()
	d.press("ctrl+o")
	d.event(event.BackgroundTaskCompleted, `{"description":"`+hostile+`"}`)
	d.event("custom.x", `{}`)
	d.event(event.StreamError, `{"requestId":"terminal:s1:m1","content":"","error":{"kind":"internal","message":"`+hostile+`"},"notes":["`+hostile+`"]}`)
	d.send(Outage{Reason: hostile}, Done{Err: errors.New("a\x1b[2J")}, Listed{What: "rules", Text: "a\x1b[2J"}, Found{Names: []string{"a\x1b[2J"}})
	check()
}
