package redisbus

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"lilac/internal/foundation/event"
	"lilac/internal/testkit/bustest"
)

// encodeHead produces the same content as encoding/json.
func FuzzHead(f *testing.F) {
	f.Add("test.happened", int64(1_700_000_000_000), "key", "lane", "name", "value")
	f.Add("", int64(-1), "", "", "", "")
	f.Add("\"", int64(0), "\\", "a\nb", "\x00\x7f", "ü<&>\u2028")
	f.Add("\xff", int64(1), "\xc3", "😀", "n", "\xed\xa0\x80")
	f.Fuzz(func(t *testing.T, kind string, ts int64, key, lane, name, value string) {
		e := event.Event{Type: event.Type(kind), TS: ts, Key: key, Lane: lane}
		if name != "" {
			e.Headers = event.Headers{name: value, "other": key}
		}
		encoded, err := json.Marshal(head{Type: e.Type, TS: e.TS, Key: e.Key, Lane: e.Lane, Headers: e.Headers})
		if err != nil {
			t.Fatal(err)
		}
		var want, got head
		if err := json.Unmarshal(encoded, &want); err != nil {
			t.Fatal(err)
		}
		by := encodeHead(e)
		if err := json.Unmarshal(by, &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v became %s, which is %+v (%v), not %+v", e, by, got, err, want)
		}
	})
}

// An entry in Redis is either rejected or decodes to the event that was written.
func FuzzEntry(f *testing.F) {
	e := bustest.Event("test.topic", "e1", "lane")
	encoded := encodeHead(e)
	f.Add("e1", sealed(e, encoded, 1_700_000_000_000))
	f.Add("", "")
	f.Add("e1", "{}\nx\nx\nnull")
	f.Add("e1", "{\"headers\":[]}\n0\n0\n{")
	f.Fuzz(func(t *testing.T, id, entry string) {
		got, err := decodeFields("test.topic", map[string]string{"i": id, "e": entry})
		if err != nil {
			return
		}
		if got.ID != id || got.ID == "" || got.Topic != "test.topic" || !strings.HasSuffix(entry, "\n"+string(got.Data)) {
			t.Errorf("%q %q came back as %+v", id, entry, got)
		}
	})
}
