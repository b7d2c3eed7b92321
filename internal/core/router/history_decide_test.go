package router_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/core/router"
	"lilac/internal/foundation/event"
)

// history is a history with delivered messages and cached reply chains.
func history(delivered []string, chains ...[]string) *router.History {
	h := &router.History{Delivered: map[string]bool{}, Chains: map[string][]string{}}
	for _, id := range delivered {
		h.Delivered[id] = true
	}
	for _, chain := range chains {
		h.Chains[chain[len(chain)-1]] = chain
	}
	return h
}

func TestOnlyCachedMessagesThatTheModelLacksAreForwarded(t *testing.T) {
	steering := router.State{Requests: []router.Request{{ID: running, Running: true}}}
	burst := router.State{Buffer: []string{"1", "2"}, First: at(0).UnixMilli(), Due: at(0).UnixMilli()}
	busy := burst
	busy.Requests = steering.Requests
	joined := router.State{Requests: []router.Request{{ID: fresh, Delivered: []string{"4", "5"}, Joined: []router.Question{{ID: "4", RequestID: "discord:10:4"}}}}}
	message := mentioning(router.Message{ID: "5", RequestID: fresh, Mode: router.Active})
	prompt := forward(event.Prompt, fresh, "5")
	for name, c := range map[string]struct {
		state     router.State
		event     router.Event
		history   *router.History
		want      []router.Effect
		requests  []string // after the decision
		delivered []string // of the last of them
		buffer    []string
	}{
		"a message with its chain":                         {router.State{}, message, history(nil, []string{"3", "4", "5"}), []router.Effect{prompt}, []string{fresh}, []string{"3", "4", "5"}, nil},
		"a part of the chain is in the history":            {router.State{}, message, history([]string{"3"}, []string{"3", "4", "5"}), []router.Effect{prompt}, []string{fresh}, []string{"4", "5"}, nil},
		"a deleted message begins no request":              {router.State{}, message, history(nil), nil, nil, nil, nil},
		"a message in the history begins no request":       {router.State{}, message, history([]string{"5"}, []string{"5"}), nil, nil, nil, nil},
		"a deleted message moves no output":                {steering, message, history(nil), nil, []string{running}, nil, nil},
		"the burst goes with a mention":                    {burst, message, history(nil, []string{"1"}, []string{"2"}, []string{"5"}), []router.Effect{forward(event.Prompt, fresh, "1", "2", "5")}, []string{fresh}, []string{"1", "2", "5"}, nil},
		"without its messages in the history":              {burst, message, history([]string{"1"}, []string{"1"}, []string{"2"}, []string{"5"}), []router.Effect{forward(event.Prompt, fresh, "2", "5")}, []string{fresh}, []string{"2", "5"}, nil},
		"a burst of which all was deleted":                 {burst, router.Due{RequestID: fresh}, history(nil), nil, nil, nil, nil},
		"the first of a burst delivers the second":         {busy, router.Due{RequestID: fresh}, history(nil, []string{"2", "1"}, []string{"2"}), []router.Effect{forward(event.FollowUp, running, "1")}, []string{running}, nil, nil},
		"control: it does not":                             {busy, router.Due{RequestID: fresh}, history(nil, []string{"1"}, []string{"2"}), []router.Effect{forward(event.FollowUp, running, "1"), forward(event.FollowUp, running, "2")}, []string{running}, nil, nil},
		"a chain takes its messages out of the burst":      {busy, message, history(nil, []string{"1", "5"}), []router.Effect{forward(event.Steer, running, "5"), router.Reanchor{RequestID: running, MessageID: "5", Inherit: true}}, []string{running}, nil, []string{"2"}},
		"what was taken back is forwarded by its question": {joined, router.Deleted{ID: "5", RequestID: fresh}, history([]string{"4", "5"}, []string{"4"}), []router.Effect{router.Cancel{RequestID: fresh}, router.Undeliver{MessageIDs: []string{"4", "5"}}, forward(event.Prompt, "discord:10:4", "4")}, []string{fresh, "discord:10:4"}, []string{"4"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s, got := decided(c.state, router.Input{Event: c.event, Rules: rules, History: c.history}, at(0))
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("effects: -want +got\n%s", diff)
			}
			var requests, delivered []string
			for _, r := range s.Requests {
				requests, delivered = append(requests, r.ID), r.Delivered
			}
			if !slices.Equal(requests, c.requests) || !slices.Equal(delivered, c.delivered) || !slices.Equal(s.Buffer, c.buffer) {
				t.Errorf("requests %q, the last with %q; burst %q\nwant %q, %q and %q", requests, delivered, s.Buffer, c.requests, c.delivered, c.buffer)
			}
		})
	}
}
