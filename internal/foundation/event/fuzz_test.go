package event_test

import (
	"encoding/json"
	"testing"

	"lilac/internal/foundation/event"
)

// Decode either rejects the data of an event, or returns a payload that survives encoding and
// decoding unchanged.
func FuzzDecode(f *testing.F) {
	for _, def := range event.All() {
		f.Add(string(def.Type), []byte(`{}`))
		f.Add(string(def.Type), []byte(`{"messages":[{"role":"user","content":"x"}],"ts":1,"delta":"x","seq":1,"offset":0,"state":"done","payload":{"a":[1]}}`))
	}
	f.Add("x", []byte(`null`))
	f.Fuzz(func(t *testing.T, kind string, data []byte) {
		p, err := event.Decode(event.Event{ID: "e", Type: event.Type(kind), Data: data})
		if err != nil {
			return
		}
		again, err := json.Marshal(p)
		if err != nil {
			t.Fatalf("%s with %q cannot be encoded: %v", kind, data, err)
		}
		q, err := event.Decode(event.Event{ID: "e", Type: event.Type(kind), Data: again})
		if err != nil {
			t.Fatalf("%s: %q was written as %q, which is refused: %v", kind, data, again, err)
		}
		if twice, _ := json.Marshal(q); string(again) != string(twice) {
			t.Errorf("%s: %q was written as %q and then as %q", kind, data, again, twice)
		}
	})
}
