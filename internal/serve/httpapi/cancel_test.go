package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"lilac/internal/foundation/event"
)

// stops returns the published requests to stop a request that the server does not know yet.
func (w *world) stops() (out []string) {
	w.t.Helper()
	for _, d := range w.environmentEvents() {
		var e event.EnvEvent
		if err := json.Unmarshal(d.Data, &e); err != nil {
			w.t.Fatal(err)
		}
		if e.Type == event.UserStop {
			out = append(out, string(e.Payload))
		}
	}
	return out
}

func TestCancelStopsTheRightRequest(t *testing.T) {
	w := newWorld(t)
	s, other := w.newSession(), w.newSession()
	cancel := func(body string) (int, string) { return w.call("POST", "/sessions/"+s+"/cancel", body) }
	cancelled := func() (out []string) {
		found, err := w.bus.Fetch(context.Background(), event.TopicCmdRequest, "", 100)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range found {
			out = append(out, d.Key+" "+string(d.Data))
		}
		return out
	}
	if code, body := cancel(""); code != 200 || len(cancelled()) != 0 {
		t.Errorf("nothing runs: %d %s", code, body)
	}
	if code, body := cancel(`{"requestId":"web:` + s + `:accepted","reason":"enough"}`); code != 200 || !strings.Contains(body, `"requestId":"web:`+s+`:accepted"`) || len(cancelled()) != 0 {
		t.Errorf("what was accepted and is not known yet: %d %s", code, body)
	}
	if got, want := w.stops(), []string{`{"sessionId":"` + s + `","client":"web"}`, `{"sessionId":"` + s + `","requestId":"web:` + s + `:accepted","client":"web","reason":"enough"}`}; !slices.Equal(got, want) {
		t.Errorf("stops %v, want %v", got, want)
	}
	w.tables.setRunning(s, "web:"+s+":q2", event.StateQueued)
	if _, body := w.call("GET", "/requests?session_id="+s, ""); !strings.Contains(body, `"asked":"about web:`+s+`:q2"`) {
		t.Errorf("what was asked is not listed: %s", body)
	}
	w.tables.setRunning(other, "web:"+other+":r", event.StateRunning)
	cancel(`{"cancelQueued":true}`)
	w.tables.setRunning(s, "web:"+s+":r", event.StateRunning)
	cancel(`{"reason":"enough"}`)
	cancel(`{"requestId":"web:` + s + `:q2"}`)
	want := []string{"web:" + s + `:q2 {"cancelQueued":true}`, "web:" + s + `:r {"reason":"enough"}`, "web:" + s + `:q2 {}`}
	if got := cancelled(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	w.tables.setRunning(s, "web:"+s+":r", event.StateDone)
	if code, body := cancel(`{"requestId":"web:` + s + `:r"}`); code != 200 || !strings.Contains(body, "already ended") || len(cancelled()) != len(want) {
		t.Errorf("a request that has ended: %d %s", code, body)
	}
	for body, want := range map[string]int{
		`{"requestId":"web:` + other + `:r"}`: 404,
		`{"requestId":"none"}`:                404,
		`{"all":true}`:                        400,
		`{"cancelQueued":"yes"}`:              400,
	} {
		if code, raw := cancel(body); code != want {
			t.Errorf("%s: %d %s", body, code, raw)
		}
	}
}
