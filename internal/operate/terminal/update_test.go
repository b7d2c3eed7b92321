package terminal

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"pgregory.net/rapid"

	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

// desk drives Update as the service would, and collects what it asks for.
type desk struct {
	t        testing.TB
	m        Model
	effects  []Effect
	printed  []string
	printing bool
}

var start = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func newDesk(t testing.TB, columns, rows int) *desk {
	d := &desk{t: t, m: NewModel("http://127.0.0.1:7420", "1.0", "demo", start)}
	m, effects := d.m.Begin("", false)
	d.m, d.effects = m, effects
	d.send(tea.WindowSizeMsg{Width: columns, Height: rows}, Tick{At: start})
	return d
}

// send applies messages and carries out what needs no server.
func (d *desk) send(all ...tea.Msg) {
	for _, msg := range all {
		m, effects := Update(d.m, msg)
		d.m = m
		for _, e := range effects {
			if p, ok := e.(Print); ok {
				d.printed = append(d.printed, p.Lines...)
				d.printing = true
				continue
			}
			d.effects = append(d.effects, e)
		}
	}
	if d.printing {
		d.printing = false
		d.send(Printed{})
	}
}

// take returns the effects since the last call, without ticks.
func (d *desk) take() (out []Effect) {
	for _, e := range d.effects {
		if _, tick := e.(Wait); !tick {
			out = append(out, e)
		}
	}
	d.effects = nil
	return out
}

func (d *desk) want(effects ...Effect) {
	d.t.Helper()
	if got := d.take(); len(got)+len(effects) > 0 && !reflect.DeepEqual(got, effects) {
		d.t.Fatalf("the effects are %#v, want %#v", got, effects)
	}
}

func (d *desk) typed(s string) {
	for _, r := range s {
		d.send(tea.KeyPressMsg{Code: r, Text: string(r)})
	}
}

func (d *desk) press(keys ...string) {
	for _, k := range keys {
		codes := map[string]tea.KeyPressMsg{
			"enter": {Code: tea.KeyEnter}, "esc": {Code: tea.KeyEscape}, "tab": {Code: tea.KeyTab}, "up": {Code: tea.KeyUp}, "down": {Code: tea.KeyDown},
			"left": {Code: tea.KeyLeft}, "right": {Code: tea.KeyRight}, "alt+enter": {Code: tea.KeyEnter, Mod: tea.ModAlt}, "backspace": {Code: tea.KeyBackspace},
		}
		msg, ok := codes[k]
		if !ok {
			msg = tea.KeyPressMsg{Code: rune(k[len(k)-1]), Mod: tea.ModCtrl}
		}
		d.send(msg)
	}
}

func (d *desk) event(t event.Type, payload string) {
	d.send(Streamed{Session: "s1", Event: event.EnvEvent{Type: t, Payload: json.RawMessage(payload)}})
}

// screen returns what the user sees, without styles.
func (d *desk) screen() string {
	lines := strings.Split(ansi.Strip(strings.Join(d.printed, "\n")+"\n"+d.m.View().Content), "\n")
	for i, l := range lines {
		lines[i] = strings.TrimRight(l, " ")
	}
	return strings.Join(lines, "\n")
}

func (d *desk) shows(texts ...string) {
	d.t.Helper()
	for _, text := range texts {
		if !strings.Contains(d.screen(), text) {
			d.t.Fatalf("%q is not on the screen:\n%s", text, d.screen())
		}
	}
}

func (d *desk) hides(text string) {
	d.t.Helper()
	if strings.Contains(d.screen(), text) {
		d.t.Fatalf("%q is on the screen:\n%s", text, d.screen())
	}
}

// talking is a desk with a conversation and a running request.
func talking(t testing.TB) *desk {
	d := newDesk(t, 80, 30)
	d.typed("hello")
	d.press("enter")
	d.send(Opened{Session: "s1", Cursor: "c0"}, Sent{Ref: 1, RequestID: "terminal:s1:m1", MessageID: "m1"})
	d.event(event.StreamStart, `{"requestId":"terminal:s1:m1"}`)
	d.take()
	return d
}

func delta(offset int, s string) string {
	return fmt.Sprintf(`{"requestId":"terminal:s1:m1","offset":%d,"content":%q}`, offset, s)
}

func TestTheFirstMessageCreatesTheConversation(t *testing.T) {
	d := newDesk(t, 80, 30)
	d.want(Recall{})
	d.typed("hello")
	d.press("enter")
	d.want(Create{})
	d.shows("› hello  (sending)")
	d.send(Opened{Session: "s1", Cursor: "c0"})
	d.want(Follow{"s1", "c0"}, Send{1, "s1", "hello", event.Prompt})
	d.send(Sent{Ref: 1, RequestID: "terminal:s1:m1", MessageID: "m1"})
	d.event(event.StreamStart, `{"requestId":"terminal:s1:m1"}`)
	d.hides("(sending)")
	d.event(event.StreamReasoning, `{"requestId":"terminal:s1:m1","content":"Who is this?"}`)
	d.event(event.StreamText, delta(0, "Hi **you**"))
	d.shows("✻ Thought", "› hello", "  Hi you", "Answering")
	d.event(event.StreamCompleted, `{"requestId":"terminal:s1:m1","content":"Hi **you**.","usage":{"inputTokens":1200,"outputTokens":5}}`)
	d.shows("  Hi you.", "demo · 1.2k in, 5 out")
	d.hides("Answering")
}

// One message is sent at a time, so that none overtakes another.
func TestMessagesKeepTheirOrder(t *testing.T) {
	d := talking(t)
	d.typed("one")
	d.press("enter")
	d.typed("two")
	d.press("tab")
	d.want(Send{2, "s1", "one", event.Steer})
	d.send(Sent{Ref: 2, RequestID: "terminal:s1:m1", MessageID: "m2"})
	d.want(Send{3, "s1", "two", event.Prompt})
	d.send(Sent{Ref: 3, RequestID: "terminal:s1:m3", MessageID: "m3"})
	d.shows("› one  (the answer reads it at the next step)", "› two  (queued, first in line)")
	d.event(event.SessionMessageApplied, `{"messageId":"m2","queue":"steer"}`)
	d.hides("(the answer reads it")
	d.event(event.StreamCompleted, `{"requestId":"terminal:s1:m1","content":""}`)
	d.event(event.StreamStart, `{"requestId":"terminal:s1:m3"}`)
	d.hides("queued")
}

func TestAMessageThatWasNotSentIsGivenBack(t *testing.T) {
	d := talking(t)
	d.typed("one")
	d.press("enter")
	d.typed("draft")
	d.send(Sent{Ref: 2, Err: fault.New(fault.RateLimited, "Too many messages.")})
	d.shows("Not sent: Too many messages.")
	if got := d.m.prompt.value(); got != "one\ndraft" {
		t.Errorf("the input is %q", got)
	}
	// The server accepted it, but its response was lost.
	d = talking(t)
	d.typed("one")
	d.press("enter")
	d.event(event.UserQuery, `{"content":"one","messageId":"m2","requestId":"terminal:s1:m1","queue":"steer"}`)
	d.send(Sent{Ref: 2, Err: errors.New("connection reset")})
	if got := d.m.prompt.value(); got != "" {
		t.Errorf("the accepted message is back in the input: %q", got)
	}
}

func TestMessagesOfOtherClientsAreShown(t *testing.T) {
	d := talking(t)
	d.event(event.UserQuery, `{"content":"from the page","messageId":"m9","requestId":"web:s1:m9","queue":"prompt"}`)
	d.shows("› from the page  (queued, first in line)")
	d.event(event.StreamCompleted, `{"requestId":"terminal:s1:m1","content":""}`)
	d.event(event.StreamStart, `{"requestId":"web:s1:m9"}`)
	d.shows("› from the page\n")
}

func TestCommands(t *testing.T) {
	for name, c := range map[string]struct {
		line    string
		effects []Effect
		shows   string
	}{
		"unknown commands are not sent": {"/foo bar", nil, "There is no command /foo."},
		"misspelled":                    {"/modle x", nil, "Did you mean /model?"},
		"a path is not sent either":     {"/etc/hosts is odd", nil, "put a space before it"},
		"a space makes it a message":    {" /etc/hosts is odd", []Effect{Send{2, "s1", "/etc/hosts is odd", event.Steer}}, "/etc/hosts is odd  (sending)"},
		"help":                          {"/help", nil, "the whole conversation, with the output of tools"},
		"stop":                          {"/stop", []Effect{Stop{"s1", "terminal:s1:m1"}}, "Stopping"},
		"tasks":                         {"/tasks", []Effect{List{"tasks", "s1"}}, ""},
		"rules":                         {"/rules", []Effect{List{What: "rules"}}, ""},
		"model with a name":             {"/model a/b high", []Effect{Choose{"s1", "a/b", "high"}}, ""},
		"the configured model":          {"/model default", []Effect{Choose{"s1", "", ""}}, ""},
		"choose a model":                {"/model ", []Effect{List{"model", "s1"}}, "Choose the model"},
		"choose a conversation":         {"/resume ", []Effect{List{"session", "s1"}}, "Continue a conversation"},
		"a conversation by its id":      {"/resume s2", []Effect{Open{"s2"}}, "Opening the conversation"},
		"new":                           {"/new ", []Effect{Follow{}}, "New conversation"},
		"export":                        {"/export my file.md", []Effect{Export{"s1", "", "my file.md"}}, ""},
		"export without a name":         {"/export ", []Effect{Export{"s1", "", "conversation-2026-05-01-120000.md"}}, ""},
		"nothing to copy":               {"/copy ", nil, "There is no answer to copy yet."},
		"quit":                          {"/quit ", []Effect{Leave{}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := talking(t)
			d.typed(c.line)
			d.press("enter")
			d.want(c.effects...)
			d.shows(c.shows)
		})
	}
}

func TestCompletionOfCommands(t *testing.T) {
	d := newDesk(t, 80, 30)
	d.take()
	d.typed("/")
	d.shows("❯ /new", "/resume [ID]", "1 of 10")
	d.typed("mo")
	d.shows("❯ /model [NAME [EFFORT]]")
	d.hides("/resume")
	d.press("tab")
	if got := d.m.prompt.value(); got != "/model " {
		t.Errorf("the input is %q", got)
	}
	d.press("ctrl+u")
	d.typed("/he")
	d.press("esc") // closes the menu
	d.hides("❯")
	d.typed("l")
	d.press("enter")
	d.shows("earlier messages")
}

func TestAnswersAreTakenBack(t *testing.T) {
	// What is not finished is replaced.
	d := talking(t)
	d.event(event.StreamText, delta(0, "one two three"))
	d.event(event.StreamText, delta(4, ""))
	d.hides("two")
	d.event(event.StreamText, delta(4, "zwei"))
	d.shows("one zwei")
	// What is finished stays while the new text equals it.
	d = talking(t)
	d.event(event.StreamText, delta(0, "one\n\ntwo\n\nthree\n"))
	d.event(event.StreamText, delta(0, ""))
	d.event(event.StreamText, delta(0, "one\n\ntwo\n\nthree\nfour\n"))
	d.hides("taken back")
	if n := strings.Count(d.screen(), "two"); n != 1 {
		t.Errorf("“two” is shown %d times:\n%s", n, d.screen())
	}
	d.event(event.StreamText, delta(5, ""))
	d.event(event.StreamText, delta(5, "zwei\n\ndrei\n"))
	d.shows("The answer was taken back to here, and continues:", "zwei", "drei")
}

func TestToolsAreFoldedWithTheirOutput(t *testing.T) {
	d := talking(t)
	call := func(status, rest string) {
		d.event(event.StreamToolCall, `{"requestId":"terminal:s1:m1","toolCallId":"c1","name":"bash","display":"bash: ls","status":"`+status+`"`+rest+`}`)
	}
	d.event(event.StreamText, delta(0, "I look."))
	call("start", "")
	d.shows("  I look.", "bash ls", "Running bash")
	call("end", `,"ok":true,"output":"1\n2\n3\n4\n5\n6\n"`)
	d.shows("● bash ls\n  └ 1\n    2\n    3\n    … 3 more lines (Ctrl+O)")
	d.event(event.StreamText, delta(7, " Done."))
	d.shows("(Ctrl+O)\n\n  Done.")
	d.press("ctrl+o")
	d.shows("    4\n    5\n    6", "Esc closes")
	d.press("ctrl+o")
	d.hides("Esc closes")
}

func TestFailedToolsShowTheReason(t *testing.T) {
	d := talking(t)
	d.event(event.StreamToolCall, `{"requestId":"terminal:s1:m1","toolCallId":"c1","name":"read","args":{"path":"a.txt"},"status":"end","ok":false,"error":"no such file"}`)
	d.shows("● read a.txt\n  └ no such file")
}

func TestQuestionsAreAnsweredInPlace(t *testing.T) {
	const request = `"requestId":"terminal:s1:m1","pause":2,"question":"Go on?"`
	for name, c := range map[string]struct {
		payload string
		keys    []string
		want    Effect
	}{
		"a limit, continue":    {`{` + request + `}`, []string{"enter"}, Answer{"terminal:s1:m1", 2, "continue", ""}},
		"a limit, stop":        {`{` + request + `}`, []string{"down", "enter"}, Answer{"terminal:s1:m1", 2, "stop", ""}},
		"an approval":          {`{` + request + `,"kind":"approval","call":{"tool":"bash","input":"{\"command\":\"ls\"}"}}`, []string{"enter"}, Answer{"terminal:s1:m1", 2, "once", ""}},
		"a refusal":            {`{` + request + `,"kind":"approval"}`, []string{"up", "enter"}, Answer{"terminal:s1:m1", 2, "no", ""}},
		"a choice":             {`{` + request + `,"kind":"question","choices":["red","blue"]}`, []string{"down", "enter"}, Answer{"terminal:s1:m1", 2, "reply", "blue"}},
		"around the other end": {`{` + request + `,"kind":"question","choices":["red","blue"]}`, []string{"up", "up", "enter"}, Answer{"terminal:s1:m1", 2, "reply", "red"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := talking(t)
			d.event(event.SessionPaused, c.payload)
			d.shows("? Go on?", "Waiting for your answer")
			d.press(c.keys...)
			d.want(c.want)
			d.hides("? Go on?")
		})
	}
	d := talking(t)
	d.event(event.SessionPaused, `{`+request+`}`)
	d.typed("continue, but quickly")
	d.press("enter")
	d.want(Send{2, "s1", "continue, but quickly", event.Steer})
	d.event(event.SessionResumed, `{"requestId":"terminal:s1:m1","answer":"continue"}`)
	d.hides("? Go on?")
	// Someone who opens the conversation later sees the question, too.
	d = newDesk(t, 80, 30)
	d.send(Opened{Session: "s1", Asking: "r1", Pause: json.RawMessage(`{"number":3,"question":"Which one?","kind":"question","choices":["a"]}`), History: []Entry{{Kind: "user", Text: "x"}}})
	d.take()
	d.shows("? Which one?")
	d.press("enter")
	d.want(Answer{"r1", 3, "reply", "a"})
}

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
	d.send(Opened{Session: "s9", Title: "About dogs", Cursor: "c1", History: []Entry{
		{Kind: "user", Text: "hi", Files: []string{"a.png"}}, {Kind: "thinking", Text: "hm"}, {Kind: "tool", ToolName: "bash", Text: "ls", Output: "x"}, {Kind: "answer", Text: "*hello*"}, {Kind: "note", Text: "Event x"},
	}})
	d.want(Follow{"s9", "c1"})
	d.shows("◆ Continuing About dogs", "› hi\n  ⊕ a.png", "✻ Thought", "● bash ls\n  └ x", "  hello", "◆ Event x")
}

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
