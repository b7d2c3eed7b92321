package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/engine/bus"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

const (
	sess = "s1"
	req  = "web:s1:m1"
)

// reader consumes a projection like a client of the stream.
type reader struct {
	t       *testing.T
	p       *projection
	buf     []byte
	pos     int
	effects []effect
}

func newReader(t *testing.T, at cursor) *reader {
	r := &reader{t: t, p: newProjection(at)}
	r.buf, r.effects = r.p.Begin(nil, 1)
	return r
}

func (r *reader) delivery(id string, p event.Payload) bus.Delivery {
	r.t.Helper()
	r.pos++
	h := event.RequestHeaders(id, sess, "web")
	e, err := event.New(event.Meta{ID: fmt.Sprint("e", r.pos), Time: time.UnixMilli(int64(r.pos)), Headers: h}, p)
	if err != nil {
		r.t.Fatal(err)
	}
	return bus.Delivery{Event: e, Position: bus.Position(fmt.Sprint(r.pos))}
}

func (r *reader) state(id string, s event.RequestState, detail string) {
	r.t.Helper()
	var w []effect
	r.buf, w = r.p.Request(r.buf, r.delivery(id, event.RequestLifecycle{State: s, Detail: detail}))
	r.effects = append(r.effects, w...)
}

func (r *reader) output(id string, p event.Payload) bus.Position {
	r.t.Helper()
	var w []effect
	d := r.delivery(id, p)
	r.buf, w = r.p.Output(r.buf, id, d)
	r.effects = append(r.effects, w...)
	return d.Position
}

func (r *reader) last(id string, pos bus.Position) {
	var w []effect
	r.buf, w = r.p.Last(r.buf, id, pos)
	r.effects = append(r.effects, w...)
}

func (r *reader) gone(id string) {
	var w []effect
	r.buf, w = r.p.OutputGone(r.buf, id, 1)
	r.effects = append(r.effects, w...)
}

type frame struct {
	ID, Event, Data string
}

// frames parses and clears the buffered output.
func (r *reader) frames() []frame {
	out := parseFrames(string(r.buf))
	r.buf = nil
	for _, f := range out {
		checkFrame(r.t, f)
	}
	return out
}

// checkFrame compares the fields of a frame, which is built by hand, with the type that
// docs/events.md is generated from.
func checkFrame(t *testing.T, f frame) {
	t.Helper()
	documented, ok := event.Frames()[event.Type(f.Event)]
	if !ok {
		return // an environment event, which is sent unmodified
	}
	var e struct{ Payload json.RawMessage }
	if err := json.Unmarshal([]byte(f.Data), &e); err != nil {
		t.Errorf("%s: %v", f.Data, err)
	}
	into := reflect.New(reflect.TypeOf(documented))
	strict := json.NewDecoder(bytes.NewReader(e.Payload))
	strict.DisallowUnknownFields()
	if err := strict.Decode(into.Interface()); err != nil {
		t.Errorf("the frame %s differs from its documentation: %v", f.Data, err)
		return
	}
	var sent map[string]json.RawMessage
	_ = json.Unmarshal(e.Payload, &sent) // it was decoded above
	for i := range into.Elem().NumField() {
		name, options, _ := strings.Cut(into.Elem().Type().Field(i).Tag.Get("json"), ",")
		if _, has := sent[name]; !has && options == "" {
			t.Errorf("the frame %s lacks %s", f.Data, name)
		}
	}
}

func parseFrames(text string) []frame {
	var out []frame
	for _, block := range strings.Split(text, "\n\n") {
		var f frame
		for _, line := range strings.Split(block, "\n") {
			name, value, _ := strings.Cut(line, ": ")
			switch name {
			case "id":
				f.ID = value
			case "event":
				f.Event = value
			case "data":
				f.Data += value
			}
		}
		if f.Event != "" {
			out = append(out, f)
		}
	}
	return out
}

// lines returns the frames in short form: type and payload.
func (r *reader) lines() []string {
	r.t.Helper()
	var out []string
	for _, f := range r.frames() {
		out = append(out, short(r.t, f))
	}
	return out
}

func short(t *testing.T, f frame) string {
	t.Helper()
	var e event.EnvEvent
	if err := json.Unmarshal([]byte(f.Data), &e); err != nil {
		t.Fatalf("%s is not JSON: %v\n%s", f.Event, err, f.Data)
	}
	if string(e.Type) != f.Event || e.ID == "" || e.Timestamp == 0 {
		t.Errorf("frame %s holds the event %+v", f.Event, e)
	}
	return f.Event + " " + string(e.Payload)
}

func expect(t *testing.T, got []string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("frames (-want +got):\n%s", diff)
	}
}

func payload(rest string) string { return `{"requestId":"` + req + `"` + rest + `}` }

var bye = event.FinalText{FinalText: "Hello", Usage: &chat.Usage{InputTokens: 3, OutputTokens: 2}}

const completed = `stream.completed {"requestId":"web:s1:m1","content":"Hello","usage":{"inputTokens":3,"outputTokens":2}}`

func TestStartComesFirstAndTheEndLast(t *testing.T) {
	r := newReader(t, cursor{})
	r.state(req, event.StateQueued, "")
	r.state(req, event.StateRunning, "")
	r.state(req, event.StateStreaming, "")
	r.output(req, event.ReasoningDelta{Delta: "hm"})
	r.output(req, event.TextDelta{Delta: "Hel", Offset: 0})
	yes := true
	r.output(req, event.ToolCallOutput{ToolCallID: "t", Name: "bash", Status: event.ToolEnd, Args: json.RawMessage(`{"a":1}`), OK: &yes, Output: "x", Truncated: true})
	r.output(req, event.TextDelta{Delta: "lo", Offset: 3})
	pos := r.output(req, bye)
	r.state(req, event.StateDone, "")
	if !r.p.Waiting() {
		t.Error("the topic of requests is not held back until the output is known to be complete")
	}
	r.last(req, pos)
	expect(t, r.lines(),
		"stream.start "+payload(""),
		"stream.reasoning "+payload(`,"content":"hm"`),
		"stream.text "+payload(`,"content":"Hel","offset":0`),
		"stream.tool_call "+payload(`,"toolCallId":"t","name":"bash","args":{"a":1},"status":"end","ok":true,"output":"x","truncated":true`),
		"stream.text "+payload(`,"content":"lo","offset":3`),
		completed)
	if r.p.Waiting() || len(r.p.runs) != 0 || len(r.p.at.Runs) != 0 {
		t.Error("the request is still followed")
	}
}

func TestEndWaitsForPendingOutput(t *testing.T) {
	r := newReader(t, cursor{})
	r.state(req, event.StateRunning, "")
	r.output(req, event.TextDelta{Delta: "Hel", Offset: 0})
	r.state(req, event.StateDone, "")
	r.last(req, "99")
	r.output(req, event.TextDelta{Delta: "lo", Offset: 3})
	if got := r.lines(); len(got) != 3 {
		t.Errorf("ended early: %v", got)
	}
	r.output(req, bye)
	expect(t, r.lines(), completed)
}

func TestOutputWithoutFinalTextEndsAtItsLastPosition(t *testing.T) {
	r := newReader(t, cursor{})
	r.state(req, event.StateRunning, "")
	pos := r.output(req, event.TextDelta{Delta: "Hel", Offset: 0})
	r.state(req, event.StateDone, "")
	r.last(req, pos)
	if got := r.lines(); len(got) != 3 || !strings.HasPrefix(got[2], "stream.completed") {
		t.Errorf("got %v", got)
	}
}

func TestFailedEndsInErrorWithASentence(t *testing.T) {
	for name, c := range map[string]struct {
		kind         fault.Kind
		detail, want string
	}{
		"without a kind":  {"", "It broke.", `{"kind":"internal","message":"It broke."}`},
		"with a kind":     {fault.RateLimited, "Come back: later.", `{"kind":"rate_limited","message":"Come back: later."}`},
		"an unknown kind": {"new", "A thing.", `{"kind":"internal","message":"A thing."}`},
		"nothing":         {"", "", `{"kind":"internal","message":"The request failed."}`},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReader(t, cursor{})
			r.state(req, event.StateRunning, "")
			r.frames()
			r.output(req, event.FinalText{FinalText: "Hel"})
			var w []effect
			r.buf, w = r.p.Request(r.buf, r.delivery(req, event.RequestLifecycle{State: event.StateFailed, Detail: c.detail, ErrorKind: c.kind}))
			r.effects = append(r.effects, w...)
			r.last(req, "2")
			expect(t, r.lines(), "stream.error "+payload(`,"content":"Hel","usage":null,"error":`+c.want))
		})
	}
}

func TestCancelledEndsInCompleted(t *testing.T) {
	r := newReader(t, cursor{})
	r.state(req, event.StateRunning, "")
	r.frames()
	r.output(req, event.FinalText{FinalText: "Hel"})
	r.state(req, event.StateCancelled, "by the user")
	r.last(req, "2")
	expect(t, r.lines(), "stream.completed "+payload(`,"content":"Hel","usage":null,"cancelled":true,"reason":"by the user"`))
}

func TestCancelledBeforeItRanEndsAtOnce(t *testing.T) {
	r := newReader(t, cursor{})
	r.state(req, event.StateQueued, "")
	r.state(req, event.StateCancelled, "")
	r.last(req, "")
	expect(t, r.lines(), "stream.completed "+payload(`,"content":"","usage":null,"cancelled":true`))
}

func TestResetTruncatesText(t *testing.T) {
	r := newReader(t, cursor{})
	r.state(req, event.StateRunning, "")
	r.frames()
	r.output(req, event.TextDelta{Delta: "0123456789"})
	r.frames()
	r.output(req, event.TextReset{Offset: 7})
	expect(t, r.lines(), "stream.text "+payload(`,"content":"","offset":7`))
}

func TestMessageApplied(t *testing.T) {
	r := newReader(t, cursor{})
	r.buf, _ = r.p.Request(r.buf, r.delivery(req, event.MessageApplied{MessageID: "m9", Queue: event.Steer, Offset: 7}))
	expect(t, r.lines(), "session.message_applied "+payload(`,"messageId":"m9","queue":"steer","offset":7`))
}

func TestEnvironmentEventsPassUnchanged(t *testing.T) {
	r := newReader(t, cursor{})
	raw := "{\"id\":\"x\",\"type\":\"custom.a\",\r\n\"timestamp\":5,\"metadata\":{\"more\":[1]},\n\"payload\":{\"n\":1}}"
	r.buf = r.p.Env(r.buf, bus.Delivery{Event: event.Event{ID: "x", Type: "custom.a", Data: []byte(raw)}, Position: "4"})
	expect(t, r.lines(), `custom.a {"n":1}`)
}

// existing_emit_unchanged: events that only inform rules about requests are not forwarded. Readers
// receive the same information once, from the output topic.
func TestStreamEventsForRulesAreNotForwarded(t *testing.T) {
	r := newReader(t, cursor{})
	for i, typ := range []event.Type{event.StreamStart, event.StreamCompleted, event.StreamError} {
		r.buf = r.p.Env(r.buf, bus.Delivery{Event: event.Event{ID: "x", Type: typ, Data: []byte("{}")}, Position: bus.Position(fmt.Sprint(i + 1))})
	}
	expect(t, r.lines())
	if r.p.at.Env != "3" {
		t.Errorf("the cursor stands at %q", r.p.at.Env)
	}
}

func TestTextCannotForgeFrames(t *testing.T) {
	r := newReader(t, cursor{})
	r.state(req, event.StateRunning, "")
	r.frames()
	nasty := "a\r\n\ndata: {}\n\nevent: stream.completed\u2028\x00\"\\\xff é 😀"
	p := event.TextDelta{Delta: nasty}
	r.output(req, p)
	fs := r.frames()
	if len(fs) != 1 {
		t.Fatalf("got %d frames", len(fs))
	}
	var e event.EnvEvent
	var got event.TextDelta
	if err := json.Unmarshal([]byte(fs[0].Data), &e); err != nil {
		t.Fatal(err)
	}
	var in struct{ Content string }
	if err := json.Unmarshal(e.Payload, &in); err != nil {
		t.Fatal(err)
	}
	raw, _ := json.Marshal(p)
	if err := json.Unmarshal(raw, &got); err != nil || in.Content != got.Delta {
		t.Errorf("got %q, want %q", in.Content, got.Delta)
	}
}

func TestExpiredOutputIsReportedAndEnds(t *testing.T) {
	r := newReader(t, cursor{})
	r.state(req, event.StateRunning, "")
	r.state(req, event.StateDone, "")
	r.last(req, "50")
	r.frames()
	r.gone(req)
	r.gone(req) // no remaining text either
	got := r.lines()
	if len(got) != 2 || !strings.HasPrefix(got[0], "stream.gap") || !strings.HasPrefix(got[1], "stream.completed") {
		t.Errorf("got %v", got)
	}
}

// After a broker lost the beginning of an output, the stream reports a gap and then sends what is left.
// The cursor must not move past text that was not sent.
func TestMissingTextIsReported(t *testing.T) {
	for name, lose := range map[string]func(r *reader){
		"a reader from the beginning": func(*reader) {},
		"a reader that resumes":       func(r *reader) { r.gone(req) },
	} {
		r := newReader(t, cursor{})
		r.state(req, event.StateRunning, "")
		r.frames()
		lose(r)
		before := r.p.at.String()
		r.output(req, event.TextDelta{Delta: "world", Offset: 6})
		r.output(req, event.TextDelta{Delta: "!", Offset: 11})
		fs := r.frames()
		var got []string
		for _, f := range fs {
			got = append(got, f.Event)
		}
		expect(t, got, streamGap, "stream.text", "stream.text")
		if fs[0].ID != before || !strings.Contains(fs[0].Data, req) || !strings.Contains(fs[0].Data, sess) {
			t.Errorf("%s: the gap is %+v, behind %s", name, fs[0], before)
		}
		r.output(req, bye)
		r.state(req, event.StateDone, "")
		r.last(req, bus.Position(fmt.Sprint(r.pos-1)))
		expect(t, r.lines(), completed)
	}
}

func TestRequestWithoutRetainedOutputEnds(t *testing.T) {
	r := newReader(t, cursor{Runs: []runCursor{{Request: req, Session: sess, After: "3"}}})
	r.gone(req)
	r.gone(req)
	r.state(req, event.StateDone, "")
	r.last(req, "9")
	if got := r.lines(); len(got) != 2 || !strings.HasPrefix(got[1], "stream.completed") || r.p.Waiting() {
		t.Errorf("got %v", got)
	}
}

func TestGapSaysWhatToDo(t *testing.T) {
	r := newReader(t, cursor{Env: "5", Req: "6"})
	r.buf = r.p.Gap(r.buf, event.TopicEnv, 1)
	got := r.lines()
	if len(got) != 1 || !strings.Contains(got[0], "/messages") {
		t.Errorf("got %v", got)
	}
}

func TestMoreRequestsThanAreFollowedStillStartAndEnd(t *testing.T) {
	r := newReader(t, cursor{})
	for i := range maxFollowed + 5 {
		r.state(fmt.Sprint("web:s1:r", i), event.StateRunning, "")
	}
	id := fmt.Sprint("web:s1:r", maxFollowed+2)
	r.state(id, event.StateStreaming, "")
	starts := r.frames()
	said := 0
	for i, f := range starts {
		if f.Event == streamGap && starts[i-1].Event == "stream.start" && strings.Contains(f.Data, "session_id=") {
			said++
		}
	}
	if len(starts) != maxFollowed+10 || said != 5 {
		t.Fatalf("%d frames, %d of which say that no words follow", len(starts), said)
	}
	if c, err := parseCursor(starts[len(starts)-1].ID); err != nil || len(c.Runs) != maxFollowed {
		t.Errorf("the cursor has %d requests, %v", len(c.Runs), err)
	}
	r.state(id, event.StateDone, "")
	r.last(id, "9999")
	r.output(id, event.TextDelta{Delta: "Hello"})
	r.output(id, bye)
	got := r.lines()
	if len(got) != 1 || !strings.Contains(got[0], `"content":"Hello"`) {
		t.Errorf("got %v", got)
	}
}

func TestRunningRequestOfAPageIsAnnouncedOnce(t *testing.T) {
	r := newReader(t, cursor{Runs: []runCursor{{Request: req, Session: sess, Announce: true}, {Request: "web:s1:m2", Session: sess, Announce: true}}})
	fs := r.frames()
	if len(fs) != 2 || len(r.effects) != 2 {
		t.Fatalf("frames %v, effects %v", fs, r.effects)
	}
	for i, f := range fs {
		c, err := parseCursor(f.ID)
		if err != nil {
			t.Fatal(err)
		}
		again := newReader(t, c).frames()
		if len(again) != 1-i {
			t.Errorf("behind start %d, %d starts are announced again", i+1, len(again))
		}
	}
}

func BenchmarkTokenToFrame(b *testing.B) {
	p := newProjection(cursor{Epoch: "01j00000000000000000000000", Env: "123456", Req: "123456", Runs: []runCursor{{Request: req, Session: sess, After: "1"}}})
	e, err := event.New(event.Meta{ID: req + ":d:17", Time: time.UnixMilli(1), Headers: event.RequestHeaders(req, sess, "web")}, event.TextDelta{Delta: "some words of text ", Offset: 1234, Seq: 17})
	if err != nil {
		b.Fatal(err)
	}
	d := bus.Delivery{Event: e, Position: "4567"}
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf, _ = p.Output(buf[:0], req, d)
	}
}
