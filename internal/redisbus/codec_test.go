package redisbus

import (
	"strings"
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
	f.Add("e1", sealed(e, encoded, "1700000000000"))
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
