package cli

import (
	"strings"
	"testing"

	"lilac/internal/foundation/event"
)

func TestPublishFlagsReplaceFieldsOfTheFile(t *testing.T) {
	c := &cli{in: strings.NewReader(`{"id":"e1","type":"a.b","payload":{"n":1},"metadata":{"env_name":"lab","more":1}}`)}
	e, err := c.readEvent("-")
	if err != nil {
		t.Fatal(err)
	}
	f := publishFlags{typ: "c.d", session: "s", agentID: "a1", agentName: "sub", metadata: []string{"attempt=2", "note=hello there", "more=3"}}
	if err := f.apply(&e); err != nil {
		t.Fatal(err)
	}
	m := e.Metadata
	if e.ID != "e1" || e.Type != "c.d" || string(e.Payload) != `{"n":1}` || m.EnvName != "lab" || m.Source != "user" || m.TriggerSessionID != "s" ||
		m.TriggerAgentID != "a1" || m.TriggerAgentName != "sub" || string(m.Extra["attempt"]) != "2" || string(m.Extra["note"]) != `"hello there"` || string(m.Extra["more"]) != "3" {
		t.Errorf("%+v", e)
	}
	for name, f := range map[string]publishFlags{
		"no type": {}, "a payload that is no JSON": {typ: "a.b", payload: "{"}, "metadata without a value": {typ: "a.b", metadata: []string{"x"}},
	} {
		if err := f.apply(&event.EnvEvent{}); err == nil {
			t.Errorf("%s is published", name)
		}
	}
}
