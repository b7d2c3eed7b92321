package redisbus

import (
	"testing"

	"lilac/internal/bustest"
)

// Whatever stands in Redis is refused or is the event that was written there.
func FuzzEntry(f *testing.F) {
	e := bustest.Event("test.topic", "e1", "lane")
	encoded, err := encodeHead(e)
	if err != nil {
		f.Fatal(err)
	}
	f.Add("e1", sealed(e, encoded, "1700000000000"), string(e.Data), "1700000000000")
	f.Add("e1", string(encoded), string(e.Data), "") // of before there were checksums
	f.Add("", "", "", "")
	f.Add("e1", "{}\n", "null", "x")
	f.Add("e1", "{\"headers\":[]}\n0", "{", "0")
	f.Fuzz(func(t *testing.T, id, head, data, at string) {
		got, err := decodeFields("test.topic", map[string]string{"i": id, "h": head, "d": data, "a": at})
		if err != nil {
			return
		}
		if got.ID != id || got.ID == "" || got.Topic != "test.topic" || string(got.Data) != data {
			t.Errorf("%q %q %q came back as %+v", id, head, data, got)
		}
	})
}
