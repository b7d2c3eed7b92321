package main

import (
	"testing"
	"time"
)

func at(ms int) time.Time { return time.UnixMilli(1_000_000 + int64(ms)) }

func TestAnOrderOfPromptsIsExplained(t *testing.T) {
	one, two := appended{"one", at(0), at(10)}, appended{"two", at(20), at(30)}
	besideTwo, lost := appended{"three", at(25), at(40)}, appended{"four", at(5), time.Time{}}
	for name, c := range map[string]struct {
		sent  []appended
		order []string
		want  bool
	}{
		"one after the other":                   {[]appended{one, two}, []string{"one", "two"}, true},
		"the second is first":                   {[]appended{one, two}, []string{"two", "one"}, false},
		"the second is missing":                 {[]appended{one, two}, []string{"one"}, false},
		"at the same time, in one order":        {[]appended{one, two, besideTwo}, []string{"one", "two", "three"}, true},
		"at the same time, in the other":        {[]appended{one, two, besideTwo}, []string{"one", "three", "two"}, true},
		"not accepted, and missing":             {[]appended{one, lost}, []string{"one"}, true},
		"not accepted, but there":               {[]appended{one, two, lost}, []string{"one", "two", "four"}, true},
		"not accepted, but there before it was": {[]appended{one, {"four", at(15), time.Time{}}}, []string{"four", "one"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := explained(c.sent, c.order); got != c.want {
				t.Errorf("explained: %v, want %v", got, c.want)
			}
		})
	}
}

func TestTheDatabaseHasOneOwnerAtATime(t *testing.T) {
	saw := func(node string, epoch int64, from, to int) look { return look{owner{node, epoch}, at(from), at(to)} }
	for name, c := range map[string]struct {
		looks []look
		want  bool
	}{
		"one owner":                          {[]look{saw("a", 1, 0, 5), saw("a", 1, 10, 15)}, true},
		"another takes over":                 {[]look{saw("a", 1, 0, 5), saw("b", 2, 10, 15), saw("a", 4, 20, 25)}, true},
		"the first comes back":               {[]look{saw("a", 1, 0, 5), saw("b", 2, 10, 15), saw("a", 1, 20, 25)}, false},
		"two owners of an epoch":             {[]look{saw("a", 1, 0, 5), saw("b", 1, 10, 15)}, false},
		"looks at the same time, in reverse": {[]look{saw("b", 2, 0, 15), saw("a", 1, 5, 10)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := owned(c.looks); got != c.want {
				t.Errorf("owned: %v, want %v", got, c.want)
			}
		})
	}
}
