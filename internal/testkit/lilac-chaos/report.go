package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// sent has the input that the program has accepted.
type sent struct {
	prompts, hooks []string
	mentions       map[string]string // text by id
	// order has the prompts of each conversation as its person saw them.
	order [][]appended
}

// observed is the state of the world in the end.
type observed struct {
	// heard are the texts of people and rules in the history, answered those of the agent.
	heard, answered []string
	// history is the whole history.
	history string
	// events are the ids of environment events, ended those of requests, once per end.
	events, ended []string
	// ran are the prompts whose commands have run, once for each time. A command that a fault
	// interrupts does not run again, and the agent is told.
	ran []string
	// order has the prompts in each conversation.
	order [][]string
	// mirrored are the ids of environment events in Redis.
	mirrored []string
	// shown are the bot's messages on Discord: the id of the message that they answer, a space,
	// and their text.
	shown []string
	// violations are the broken rules of Discord.
	violations []string
}

// answers counts the messages on Discord that answer a mention.
func (o observed) answers(id, text string) (n int) {
	for _, shown := range o.shown {
		if strings.HasPrefix(shown, id+" ") && strings.Contains(shown, "I heard: ") && strings.Contains(shown, text) {
			n++
		}
	}
	return n
}

// unanswered returns the mentions that no message answers.
func (o observed) unanswered(mentions map[string]string) (ids []string) {
	for id, text := range mentions {
		if o.answers(id, text) == 0 {
			ids = append(ids, id)
		}
	}
	return ids
}

// report is the result of a proof.
type report struct {
	sent     sent
	observed observed
	faults   map[string]int
	silences []time.Duration
	looks    []look
}

// counts returns the accepted texts (want) that were found never, and more than once.
func counts(want []string, found func(text string) int) (lost, twice []string) {
	for _, text := range want {
		switch n := found(text); {
		case n == 0:
			lost = append(lost, text)
		case n > 1:
			twice = append(twice, text)
		}
	}
	return lost, twice
}

// broken lists the broken promises.
func (r report) broken() (out []string) {
	add := func(what string, want []string, found func(string) int) {
		lost, twice := counts(want, found)
		if len(lost) > 0 {
			out = append(out, fmt.Sprintf("%d %s lost: %s", len(lost), what, strings.Join(lost, ", ")))
		}
		if len(twice) > 0 {
			out = append(out, fmt.Sprintf("%d %s done twice: %s", len(twice), what, strings.Join(twice, ", ")))
		}
	}
	heard, answered, events := tally(r.observed.heard), tally(r.observed.answered), tally(r.observed.events)
	add("prompts in the history", r.sent.prompts, func(text string) int { return heard[text] })
	add("answers to prompts", r.sent.prompts, func(text string) int { return answered["I heard: "+text] })
	add("webhooks", r.sent.hooks, func(id string) int { return events["webhook:ci:"+id] })
	mirrored := tally(r.observed.mirrored)
	add("webhooks in Redis", r.sent.hooks, func(id string) int { return min(1, mirrored["webhook:ci:"+id]) })
	told := tally(asked.FindAllString(r.observed.history, -1))
	// The agent may be told of one delivery in several places, and of several at a time.
	add("webhooks that the agent was told of", r.sent.hooks, func(id string) int { return min(1, told[id]) })
	add("mentions on Discord", slices.Sorted(maps.Keys(r.sent.mentions)), func(id string) int {
		return r.observed.answers(id, r.sent.mentions[id])
	})
	for _, v := range r.observed.violations {
		out = append(out, "Discord's rules: "+v)
	}
	ran := tally(r.observed.ran)
	add("commands", r.sent.prompts, func(text string) int { return max(1, ran[text]) })
	ended := tally(r.observed.ended)
	add("ends of requests", slices.Sorted(maps.Keys(ended)), func(id string) int { return ended[id] })
	return append(out, r.disorder()...)
}

func tally(texts []string) map[string]int {
	n := map[string]int{}
	for _, text := range texts {
		n[text]++
	}
	return n
}

// String is the report as people read it.
func (r report) String() string {
	var b strings.Builder
	total := 0
	for _, n := range r.faults {
		total += n
	}
	fmt.Fprintf(&b, "\n%d faults:\n", total)
	for _, fault := range slices.Sorted(maps.Keys(r.faults)) {
		fmt.Fprintf(&b, "  %4d  %s\n", r.faults[fault], fault)
	}
	if n := len(r.silences); n > 0 {
		sorted := slices.Sorted(slices.Values(r.silences))
		fmt.Fprintf(&b, "no node worked: p50 %s, p99 %s, at most %s\n", round(sorted[n/2]), round(sorted[min(n-1, n*99/100)]), round(sorted[n-1]))
	}
	fmt.Fprintf(&b, "accepted: %d prompts, %d webhooks, %d mentions on Discord; %d requests ended\n", len(r.sent.prompts), len(r.sent.hooks), len(r.sent.mentions), len(tally(r.observed.ended)))
	fmt.Fprintf(&b, "%d looks at the owner of the database saw %d owners, one at a time\n", len(r.looks), ownersIn(r.looks))
	fmt.Fprintf(&b, "%d commands ran\n", len(tally(r.observed.ran)))
	broken := r.broken()
	for _, line := range broken {
		fmt.Fprintf(&b, "BROKEN: %s\n", line)
	}
	if len(broken) == 0 {
		b.WriteString("0 lost, 0 answered twice\n")
	}
	return b.String()
}

func round(d time.Duration) time.Duration { return d.Round(10 * time.Millisecond) }
