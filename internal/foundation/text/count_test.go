package text

import "testing"

func TestNounsFollowTheirNumber(t *testing.T) {
	for n, want := range map[int]string{0: "0 events", 1: "1 event", 2: "2 events"} {
		if got := Count(n, "event"); got != want {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
}
