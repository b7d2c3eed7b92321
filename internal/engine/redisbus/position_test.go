package redisbus

import "testing"

// Any position from a client is either rejected or parsed and formatted without change.
func FuzzPositions(f *testing.F) {
	for _, seed := range []string{"", "1-1", "8388607-1099511627775", "8388608-0", "1-1099511627776", "-1-1", "1--1", "01-1", "1-1-1", "x", "1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		seq, ok := parseEntryID(text)
		if !ok {
			return
		}
		again, ok := parseEntryID(entryID(seq))
		if seq < 0 || !ok || again != seq {
			t.Errorf("%q is read as %d and written as %q", text, seq, entryID(seq))
		}
	})
}
