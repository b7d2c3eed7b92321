package main

import (
	"strings"
	"testing"
)

// A proof that cannot fail proves nothing: each broken promise is found.
func TestBrokenPromisesAreFound(t *testing.T) {
	kept := func() report {
		return report{
			sent: sent{prompts: []string{"prompt-0-1", "prompt-0-12"}, hooks: []string{"delivery-1"}, mentions: map[string]string{"77": "mention-1"}},
			observed: observed{
				heard: []string{"prompt-0-1", "prompt-0-12"}, answered: []string{"I heard: prompt-0-1", "I heard: prompt-0-12"},
				history: `{"text":"delivery-1"}`, events: []string{"webhook:ci:delivery-1"}, mirrored: []string{"webhook:ci:delivery-1"}, ended: []string{"r1", "r2"},
				shown: []string{"77 I heard: mention-1"},
			},
		}
	}
	if broken := kept().broken(); len(broken) > 0 {
		t.Errorf("kept promises count as broken: %q", broken)
	}
	for want, change := range map[string]func(*observed){
		"1 prompts in the history lost: prompt-0-1":              func(o *observed) { o.heard = o.heard[1:] },
		"1 prompts in the history done twice: prompt-0-1":        func(o *observed) { o.heard = append(o.heard, "prompt-0-1") },
		"1 answers to prompts lost: prompt-0-12":                 func(o *observed) { o.answered = o.answered[:1] },
		"1 answers to prompts done twice":                        func(o *observed) { o.answered = append(o.answered, o.answered[0]) },
		"1 webhooks in Redis lost: delivery-1":                   func(o *observed) { o.mirrored = nil },
		"1 commands done twice: prompt-0-1":                      func(o *observed) { o.ran = []string{"prompt-0-1", "prompt-0-1"} },
		"1 webhooks lost":                                        func(o *observed) { o.events = nil },
		"1 webhooks done twice":                                  func(o *observed) { o.events = append(o.events, o.events[0]) },
		"1 webhooks that the agent was told of lost: delivery-1": func(o *observed) { o.history = `{"text":"delivery-11"}` },
		"1 mentions on Discord lost: 77":                         func(o *observed) { o.shown = []string{"78 I heard: mention-1"} },
		"1 mentions on Discord done twice: 77":                   func(o *observed) { o.shown = append(o.shown, o.shown[0]) },
		"1 ends of requests done twice: r2":                      func(o *observed) { o.ended = append(o.ended, "r2") },
		"Discord's rules: two identifies within a second":        func(o *observed) { o.violations = []string{"two identifies within a second"} },
	} {
		r := kept()
		change(&r.observed)
		if broken := r.broken(); len(broken) != 1 || !strings.HasPrefix(broken[0], want) {
			t.Errorf("got %q, want %q", broken, want)
		}
	}
}
