package app

import (
	"slices"
	"testing"
	"time"

	"lilac/internal/engine/db"
)

func TestTheNodesThatRunCommands(t *testing.T) {
	here := db.Node{Name: "here", URL: "http://here", Since: 1000, Seen: 9000}
	for name, c := range map[string]struct {
		others []db.Node
		want   []string
	}{
		"others":                       {[]db.Node{here, {Name: "b", URL: "http://b"}, {Name: "c", URL: "http://c"}}, []string{"b", "c"}},
		"a process that only waits":    {[]db.Node{here, {Name: "b"}}, nil},
		"a silent one":                 {[]db.Node{here, {Name: "b", URL: "http://b", SilentMS: 6000}}, nil},
		"the former process":           {[]db.Node{here, {Name: "b", URL: "http://here", Seen: 900}}, nil},
		"a node with the same address": {[]db.Node{here, {Name: "b", URL: "http://here", Seen: 8900}}, []string{"b"}},
		"this one is not listed yet":   {[]db.Node{{Name: "b", URL: "http://b"}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, n := range reachable(c.others, "here", 6*time.Second) {
				got = append(got, n.Name)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}
