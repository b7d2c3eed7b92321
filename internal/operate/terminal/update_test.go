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

	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/operate/transcript"
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

// The request may start before the response to its message arrives, and before the message is
// announced.
func TestARequestMayStartBeforeItsMessageIsKnown(t *testing.T) {
	announced := func(d *desk) {
		d.event(event.UserQuery, `{"content":"see @a.txt","messageId":"m2","requestId":"terminal:s1:m2","queue":"prompt","attachments":[{"type":"file","filename":"a.txt"}]}`)
	}
	started := func(d *desk) { d.event(event.StreamStart, `{"requestId":"terminal:s1:m2"}`) }
	sent := func(d *desk) {
		d.send(Sent{Ref: 2, RequestID: "terminal:s1:m2", MessageID: "m2", Files: []string{"a.txt"}})
	}
	for i, order := range [][]func(*desk){{announced, started, sent}, {started, announced, sent}, {started, sent, announced}, {sent, announced, started}, {sent, started, announced}} {
		d := talking(t)
		d.event(event.StreamCompleted, `{"requestId":"terminal:s1:m1","content":""}`)
		d.typed("see @a.txt")
		d.press("enter")
		for _, do := range order {
			do(d)
		}
		if n := strings.Count(d.screen(), "› see @a.txt\n  ⊕ a.txt\n"); n != 1 || len(d.m.outbox) > 0 {
			t.Errorf("order %d: the message is shown %d times:\n%s", i, n, d.screen())
		}
	}
}

// After a broken connection, the stream may repeat events.
func TestRepeatedEventsChangeNothing(t *testing.T) {
	d := talking(t)
	d.event(event.StreamText, delta(0, "one two"))
	before := d.screen()
	d.event(event.UserQuery, `{"content":"hello","messageId":"m1","requestId":"terminal:s1:m1","queue":"prompt"}`)
	d.event(event.StreamStart, `{"requestId":"terminal:s1:m1"}`)
	d.event(event.StreamText, delta(0, "one "))
	d.event(event.StreamText, delta(4, "two"))
	if after := d.screen(); after != before {
		t.Errorf("the screen changed to:\n%s\nfrom:\n%s", after, before)
	}
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
	d.send(Opened{Session: "s1", Questions: []OpenQuestion{
		{Request: "r1", Pause: json.RawMessage(`{"number":3,"question":"Which one?","kind":"question","choices":["a"]}`)},
		{Request: "sub:s2:t1", Task: "the tests", Pause: json.RawMessage(`{"number":1,"question":"May I call bash?","kind":"approval"}`)},
	}, History: []transcript.Entry{{Kind: "user", Text: "x"}}})
	d.take()
	d.shows("? Which one?")
	// A question of a background task waits until the one that is shown is answered.
	d.event(event.SessionPaused, `{"requestId":"sub:s3:t2","pause":1,"question":"The task “docs” asks: May I call write?","kind":"approval"}`)
	d.shows("? Which one?")
	d.press("enter")
	d.want(Answer{"r1", 3, "reply", "a"})
	d.shows("The task “the tests” asks: May I call bash?")
	d.event(event.SessionResumed, `{"requestId":"sub:s2:t1","answer":"no"}`)
	d.shows("The task “docs” asks: May I call write?")
	d.press("enter")
	d.want(Answer{"sub:s3:t2", 1, "once", ""})
	d.hides("asks:")
}
