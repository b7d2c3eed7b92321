package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"

	"lilac/internal/core/session"
	"lilac/internal/engine/bus"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

// awayBus is a bus whose log is unavailable.
type awayBus struct{ bus.Bus }

func (awayBus) Last(context.Context, event.Topic) (bus.Position, error) {
	return "", fault.New(fault.Unavailable, "Redis cannot be reached.")
}

// While the log is unavailable, stored messages are still listed. A query that must include streamed
// output fails with a retryable error instead.
func TestStoredMessagesAreListedWhileTheBusIsUnavailable(t *testing.T) {
	w := newWorld(t)
	id := w.newSession()
	request := "web:" + id + ":r1"
	w.begin(id, request)
	w.tables.messages = []session.HistoryMessage{{ID: "m1", RequestID: request, Message: chat.Text(chat.User, "hello")}}
	get := func(b bus.Bus, query string) (code int, answer map[string]any) {
		code, body := w.getWith(b, "/sessions/"+id+"/messages"+query)
		if err := json.Unmarshal([]byte(body), &answer); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		return code, answer
	}
	code, there := get(w.bus, "")
	if code != http.StatusOK || there["cursor"] == "" || there["waiting"] != nil {
		t.Errorf("with the log: %d %v", code, there)
	}
	code, away := get(awayBus{w.bus}, "")
	if code != http.StatusOK || away["cursor"] != "" || away["waiting"] != "Redis cannot be reached." {
		t.Errorf("without the log: %d %v", code, away)
	}
	for _, key := range []string{"messages", "running"} {
		if list, _ := away[key].([]any); len(list) != 1 {
			t.Errorf("without the log the %s are %v", key, away[key])
		}
	}
	if code, answer := get(awayBus{w.bus}, "?replay=1"); code != http.StatusServiceUnavailable {
		t.Errorf("what was streamed: %d %v", code, answer)
	}
}

// The renderer renders one text at a time. A client that disconnects stops waiting for its turn.
func TestRenderingIsSerialized(t *testing.T) {
	r := newRenderer()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	r.busy <- struct{}{}
	if _, err := r.render(gone, "a"); fault.KindOf(err) != fault.Cancelled {
		t.Errorf("gone while another is rendered: %v", err)
	}
	<-r.busy
	for range 2 {
		if out, err := r.render(t.Context(), "a"); err != nil || out != "<p>a</p>\n" {
			t.Errorf("%q, %v", out, err)
		}
	}
}
