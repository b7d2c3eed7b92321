package httpapi

import (
	"encoding/json"
	"strings"
	"testing"

	"lilac/internal/foundation/event"
)

func TestReplayIsANewEventThatNamesItsOrigin(t *testing.T) {
	w := newWorld(t)
	s := w.newSession()
	if code, body := w.call("POST", "/events", `{"id":"build 1","type":"build.failed","payload":{"n":1},"metadata":{"trigger_session_id":"`+s+`","more":2}}`); code != 200 {
		t.Fatalf("%d %s", code, body)
	}
	var ids []string
	for range 2 { // each replay is an event of its own
		code, body := w.call("POST", "/events/build%201/replay", "")
		var out published
		if err := json.Unmarshal([]byte(body), &out); err != nil || code != 200 || out.Duplicate {
			t.Fatalf("%d %s", code, body)
		}
		ids = append(ids, out.ID)
	}
	all := w.environmentEvents()
	var last event.EnvEvent
	if err := json.Unmarshal(all[len(all)-1].Data, &last); err != nil {
		t.Fatal(err)
	}
	if ids[0] == ids[1] || last.ID != ids[1] || last.Type != "build.failed" || string(last.Payload) != `{"n":1}` || last.Metadata.TriggerSessionID != s ||
		string(last.Metadata.Extra[event.MetadataReplayOf]) != `"build 1"` || string(last.Metadata.Extra["more"]) != "2" {
		t.Errorf("%v, %+v", ids, last)
	}
	if code, body := w.call("POST", "/events/nobody/replay", ""); code != 404 {
		t.Errorf("%d %s", code, body)
	}
	// A message from a person is sent once.
	if code, _ := w.call("POST", "/sessions/"+s+"/prompt", `{"content":"hello"}`); code != 200 {
		t.Fatal(code)
	}
	for _, d := range w.environmentEvents() {
		if strings.HasPrefix(d.ID, "user_query:") {
			if code, body := w.call("POST", "/events/"+d.ID+"/replay", ""); code != 409 {
				t.Errorf("a message is replayed: %d %s", code, body)
			}
		}
	}
}
