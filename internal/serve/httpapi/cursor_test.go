package httpapi

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/engine/bus"
	"lilac/internal/foundation/event"
	"lilac/internal/testkit/effort"
)

// script builds a stream of two sessions that covers all difficult cases for cursors.
func script(t *testing.T) (topics map[event.Topic][]bus.Delivery) {
	topics = map[event.Topic][]bus.Delivery{}
	n := 0
	add := func(id string, p event.Payload) {
		n++
		e, err := event.New(event.Meta{ID: fmt.Sprint("e", n), Time: time.UnixMilli(int64(n)), Headers: event.RequestHeaders(id, sess, "web")}, p)
		if err != nil {
			t.Fatal(err)
		}
		topics[e.Topic] = append(topics[e.Topic], bus.Delivery{Event: e, Position: bus.Position(fmt.Sprint(len(topics[e.Topic]) + 1))})
	}
	for _, id := range []string{"web:s1:a", "web:s1:b", "web:s1:c"} {
		add(id, event.RequestLifecycle{State: event.StateRunning})
		add(id, event.MessageApplied{MessageID: id, Queue: event.Prompt})
		for i := range 4 {
			add(id, event.TextDelta{Delta: "x", Offset: int64(i)})
			add("web:s1:z", event.EnvEvent{ID: fmt.Sprint(id, i), Type: "custom.x", Timestamp: 1, Payload: []byte("1")})
		}
		add(id, event.FinalText{FinalText: "xxxx"})
	}
	add("web:s1:b", event.RequestLifecycle{State: event.StateDone})
	add("web:s1:a", event.RequestLifecycle{State: event.StateFailed})
	add("web:s1:c", event.RequestLifecycle{State: event.StateCancelled})
	return topics
}

// play feeds a projection with the events after a cursor. order selects the interleaving of the topics.
// play stops after the given number of frames.
func play(t *testing.T, topics map[event.Topic][]bus.Delivery, at cursor, order int, most int) (out []frame) {
	t.Helper()
	p := newProjection(at)
	next := map[event.Topic]int{}
	num := func(pos bus.Position) (n int) {
		if pos != "" {
			if _, err := fmt.Sscan(string(pos), &n); err != nil {
				t.Fatal(err)
			}
		}
		return n
	}
	next[event.TopicEnv], next[event.TopicRequest] = num(at.Env), num(at.Req)
	buf, effects := p.Begin(nil, 1)
	open := map[event.Topic]bool{event.TopicEnv: true, event.TopicRequest: true}
	for step := 0; ; step++ {
		for len(effects) > 0 {
			first := effects[0]
			effects = effects[1:]
			switch e := first.(type) {
			case follow:
				topic := event.OutputTopic(e.request)
				open[topic], next[topic] = true, num(e.after)
			case unfollow:
				delete(open, event.OutputTopic(e.request))
			case findLast:
				var more []effect
				buf, more = p.Last(buf, e.request, bus.Position(fmt.Sprint(len(topics[event.OutputTopic(e.request)]))))
				effects = append(effects, more...)
			}
		}
		var ready []event.Topic
		for _, topic := range []event.Topic{event.TopicRequest, event.OutputTopic("web:s1:a"), event.OutputTopic("web:s1:b"), event.OutputTopic("web:s1:c"), event.TopicEnv} {
			if open[topic] && next[topic] < len(topics[topic]) && (topic != event.TopicRequest || !p.Waiting()) {
				ready = append(ready, topic)
			}
		}
		out = parseFrames(string(buf))
		if len(out) >= most || len(ready) == 0 {
			return out[:min(len(out), most)]
		}
		topic := ready[(order*7+step*order)%len(ready)]
		d := topics[topic][next[topic]]
		next[topic]++
		switch {
		case topic == event.TopicEnv:
			buf = p.Env(buf, d)
		case topic == event.TopicRequest:
			buf, effects = p.Request(buf, d)
		default:
			id, _ := topic.OutputRequest()
			buf, effects = p.Output(buf, id, d)
		}
	}
}

func ids(t *testing.T, frames []frame) map[string]int {
	out := map[string]int{}
	for _, f := range frames {
		var e event.EnvEvent
		if err := json.Unmarshal([]byte(f.Data), &e); err != nil {
			t.Fatal(err)
		}
		out[e.ID]++
	}
	return out
}

func TestResumingAfterEveryFrameLosesAndRepeatsNothing(t *testing.T) {
	effort.SkipSlow(t)
	topics := script(t)
	resumeEverywhere := func(mangle func(cursor) cursor) (bad int) {
		for order := range 12 {
			whole := play(t, topics, cursor{}, order, 1<<30)
			want := ids(t, whole)
			for cut := range whole {
				head := play(t, topics, cursor{}, order, cut+1)
				at, err := parseCursor(head[len(head)-1].ID)
				if err != nil {
					t.Fatal(err)
				}
				for other := range 3 {
					tail := play(t, topics, mangle(at), other, 1<<30)
					if !cmp.Equal(want, ids(t, append(append([]frame{}, head...), tail...))) {
						bad++
					}
				}
			}
		}
		return bad
	}
	if got := len(play(t, topics, cursor{}, 1, 1<<30)); got != 3*(1+1+4+4)+3 {
		t.Fatalf("the whole stream has %d frames", got)
	}
	if bad := resumeEverywhere(func(c cursor) cursor { return c }); bad > 0 {
		t.Errorf("%d of the resumed streams lost or repeated something", bad)
	}
	// Control: without the positions in the outputs, the test must fail.
	if bad := resumeEverywhere(func(c cursor) cursor { c.Runs = nil; return c }); bad == 0 {
		t.Error("control: cursors without the outputs' places pass too")
	}
}

func TestCursorOnTheWireIsTheCursor(t *testing.T) {
	for _, c := range []cursor{
		{},
		{Epoch: "é\"", Env: "1", Req: "22"},
		{Env: "1", Runs: []runCursor{{Request: req, Session: sess, After: "7"}, {Request: "web:s:2", Announce: true}}},
	} {
		raw, _ := appendCursor(nil, nil, &c)
		for _, s := range []string{string(raw), c.String()} {
			got, err := parseCursor(s)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c, got); diff != "" {
				t.Error(diff)
			}
		}
	}
}

func TestBadCursorsAreRefused(t *testing.T) {
	many := cursor{}
	for i := range maxFollowed + 1 {
		many.Runs = append(many.Runs, runCursor{Request: fmt.Sprint(i)})
	}
	twice := cursor{Runs: []runCursor{{Request: "a"}, {Request: "a"}}}
	for _, s := range []string{"x", "%%%", "bm90IGpzb24", many.String(), twice.String(), strings.Repeat("A", maxCursor+1)} {
		if _, err := parseCursor(s); err == nil {
			t.Errorf("%.20q is taken", s)
		}
	}
}

func FuzzCursor(f *testing.F) {
	f.Add(cursor{Env: "1", Runs: []runCursor{{Request: "a", After: "2"}}}.String())
	f.Fuzz(func(t *testing.T, s string) {
		if c, err := parseCursor(s); err == nil {
			raw, _ := appendCursor(nil, nil, &c)
			if _, err := parseCursor(string(raw)); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// A client that followed all sessions and resumes with only one session receives no events of the
// others.
func TestCursorOfAllSessionsResumesOneSession(t *testing.T) {
	w := newWorld(t)
	mine, other := w.newSession(), w.newSession()
	all := w.listen("", "")
	w.begin(other, "web:"+other+":m")
	w.begin(mine, "web:"+mine+":m")
	w.publish(other, "web:"+other+":m", delta(0))
	w.publish(mine, "web:"+mine+":m", delta(0))
	seen := append(all.until("stream.text"), all.until("stream.text")...)
	l := w.listen("session_id="+mine, seen[len(seen)-1].ID)
	w.publish(other, "web:"+other+":m", delta(1))
	w.publish(mine, "web:"+mine+":m", delta(1))
	w.end(mine, "web:"+mine+":m", "0000 0001 ")
	for _, f := range l.until("stream.completed") {
		if strings.Contains(f.Data, other) {
			t.Errorf("the stream of %s has %s", mine, f.Data)
		}
	}
	c, err := parseCursor(l.first)
	if err != nil || len(c.Runs) != 1 || c.Runs[0].Session != mine {
		t.Errorf("it follows %+v: %v", c.Runs, err)
	}
}
