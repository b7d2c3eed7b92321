package remote

import "testing"

func TestTheNodeOfACommand(t *testing.T) {
	here, two, big := Node{Name: "here", CPUs: 2}, Node{Name: "two", URL: "http://two", CPUs: 2}, Node{Name: "big", URL: "http://big", CPUs: 8}
	for name, c := range map[string]struct {
		nodes  []Node
		before string
		loads  map[string]load
		want   string
	}{
		"one node":                       {[]Node{here}, "", nil, "here"},
		"idle nodes":                     {[]Node{here, two}, "", nil, "here"},
		"the one with fewer commands":    {[]Node{here, two}, "", map[string]load{"here": {running: 1}}, "two"},
		"fewer for each processor":       {[]Node{here, big}, "", map[string]load{"here": {running: 1}, "big": {running: 3}}, "big"},
		"more for each processor":        {[]Node{here, big}, "", map[string]load{"here": {running: 1}, "big": {running: 5}}, "here"},
		"fewer sessions":                 {[]Node{here, two}, "", map[string]load{"here": {sessions: 2}, "two": {sessions: 1}}, "two"},
		"commands count before sessions": {[]Node{here, two}, "", map[string]load{"here": {sessions: 9}, "two": {running: 1}}, "here"},
		"a session stays":                {[]Node{here, two}, "two", map[string]load{"two": {running: 9}}, "two"},
		"its node is gone":               {[]Node{here, two}, "gone", map[string]load{"here": {running: 1}}, "two"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := choose(c.nodes, c.before, c.loads); got.Name != c.want {
				t.Errorf("it runs on %q, want %q", got.Name, c.want)
			}
		})
	}
}

func TestTheSessionsThatAreRememberedAreBounded(t *testing.T) {
	p := New(Options{}).placed
	for i := range maxSessions + 100 {
		p.assignLocked(string(rune(i+1000)), "one")
	}
	p.assignLocked(string(rune(maxSessions+1050)), "two")
	if len(p.sessions) != maxSessions || len(p.order) != maxSessions || p.loads["one"].sessions != maxSessions-1 || p.loads["two"].sessions != 1 {
		t.Errorf("%d sessions, %d in order, %+v", len(p.sessions), len(p.order), p.loads)
	}
}
