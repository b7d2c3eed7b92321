package openaiapi

import "testing"

func TestACallRepeatsOneWhoseAnswerWasLost(t *testing.T) {
	const minute = 60_000
	at := present{now: 100 * minute, began: 50 * minute, process: "this"}
	restarted := present{now: 100 * minute, began: 99 * minute, process: "this"}
	call := func(process string, accepted, lost int64) *run {
		return &run{Process: process, At: accepted * minute, LostAt: lost * minute}
	}
	for name, c := range map[string]struct {
		alike       []*run
		at          present
		want, again int // for a call without a mark, and for one that says that it is not the first attempt
	}{
		"none":                               {nil, at, -1, -1},
		"a client waits for it":              {[]*run{call("this", 99, 0)}, at, -1, 0},
		"a client waits for it for long":     {[]*run{call("this", 60, 0)}, at, -1, -1},
		"its connection broke":               {[]*run{call("this", 60, 99)}, at, 0, 0},
		"its connection broke long ago":      {[]*run{call("this", 60, 97)}, at, -1, -1},
		"broke long ago, but began recently": {[]*run{call("this", 90, 97)}, at, -1, 0},
		"Lilac was killed":                   {[]*run{call("before", 60, 0)}, restarted, 0, 0},
		"Lilac was killed long ago":          {[]*run{call("before", 49, 0)}, at, -1, -1},
		"it broke, then Lilac was killed":    {[]*run{call("before", 60, 90)}, restarted, -1, -1},
		"Lilac stops":                        {[]*run{call("this", 60, 0)}, present{now: at.now, began: at.now}, 0, 0},
		"one of two is taken":                {[]*run{call("this", 99, 0), call("before", 99, 0)}, restarted, 1, 1},
		"both are taken":                     {[]*run{call("this", 99, 0), call("this", 99, 0)}, restarted, -1, 0},
	} {
		if got := (attempt{}).repeated(c.alike, c.at); got != c.want {
			t.Errorf("%s: a call without a mark repeats %d, want %d", name, got, c.want)
		}
		if got := (attempt{again: true}).repeated(c.alike, c.at); got != c.again {
			t.Errorf("%s: a call with a mark repeats %d, want %d", name, got, c.again)
		}
		for i, r := range c.alike {
			if (i == c.want || i == c.again) && !c.at.kept(r) {
				t.Errorf("%s: call %d is forgotten", name, i)
			}
		}
	}
}
