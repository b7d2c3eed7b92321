package health

import (
	"testing"
	"time"
)

func TestAbsenceCountsOnlyWhatIsAbsentInEveryCheck(t *testing.T) {
	at := time.Date(2026, 3, 1, 9, 30, 0, 0, time.UTC)
	a := &Absence{Lost: time.Minute}
	for i, step := range []struct {
		after  time.Duration
		absent []string
		want   int
	}{
		{0, []string{"a"}, 0},
		{time.Minute, []string{"a", "b"}, 0},
		{time.Second, []string{"a", "b"}, 2},
		{time.Second, []string{"b"}, 0},
		{time.Second, []string{"a", "b"}, 0}, // a was present in between
		{time.Minute, []string{"a"}, 0},
		{time.Second, nil, 0},
	} {
		at = at.Add(step.after)
		if got := a.Check(step.absent, at); got != step.want {
			t.Errorf("check %d of %v: %d, want %d", i+1, step.absent, got, step.want)
		}
	}
}
