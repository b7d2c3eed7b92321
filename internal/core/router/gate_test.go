package router_test

import (
	"context"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"lilac/internal/core/router"
	"lilac/internal/core/surface"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/model/llm"
)

// asked is what a question costs.
var asked = chat.Usage{InputTokens: 30, OutputTokens: 12}

// says is a model that always answers the same.
type says string

func (says) Info() llm.Info { return llm.Info{} }

func (s says) Stream(context.Context, llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		if s == "error" {
			yield(llm.Chunk{}, fault.New(fault.Unavailable, "no"))
			return
		}
		if yield(llm.Chunk{Kind: llm.ChunkText, Text: string(s)}, nil) {
			yield(llm.Chunk{Kind: llm.ChunkDone, Usage: asked}, nil)
		}
	}
}

func TestOnlyAClearYesForwards(t *testing.T) {
	for answer, want := range map[string]bool{
		`{"forward": true, "reason": "asked"}`:                 true,
		"\n {\"forward\":true,\"reason\":\"\"} ":               true,
		`{"forward": false, "reason": "chat"}`:                 false,
		`{"forward": true}`:                                    true,
		`{"forward": "true", "reason": "x"}`:                   true,
		`{"forward": true, "reason": "x", "more": {"a": [1]}}`: true,
		`Sure! {"forward": true, "reason": "x"}`:               true,
		`{"forward": true, "reason": "x"} {"forward": true}`:   true,
		`{"forward": true} or {"forward": false}`:              false,
		`{"forward": null}`:                                    false,
		`{"forward": 1}`:                                       false,
		`{"reason": "{\"forward\": true}"}`:                    false,
		`forward: true`:                                        false,
		"```json\n{\"forward\": true, \"reason\": \"x\"}\n```": true,
		"```\n{\"forward\": false}\n```":                       false,
		"":                                                     false,
		"error":                                                false,
		`{"forward": true, "reason": "` + strings.Repeat("x", 5000) + `"}`: false,
	} {
		gate := router.ModelGate(func() llm.Model { return says(answer) })
		got, err := gate(t.Context(), []chat.Message{chat.Text(chat.User, "hi")})
		if got.Forward != want || want && err != nil {
			t.Errorf("%.60q: %v, %v", answer, got, err)
		}
		if cut := answer == "error" || len(answer) > 5000; got.Used != asked && !cut {
			t.Errorf("%.60q: it used %+v, want %+v", answer, got.Used, asked)
		}
	}
}

// A gate that never gives a verdict is reported, and soon no longer decides: it must not mute a channel.
func TestAGateThatCannotBeReadMutesNoChannel(t *testing.T) {
	w := newWorld(t)
	var answer atomic.Value
	w.mode, w.gate = router.Active, func(ctx context.Context, m []chat.Message) (router.Verdict, error) {
		return router.ModelGate(func() llm.Model { return says(answer.Load().(string)) })(ctx, m)
	}
	w.start()
	w.svc.Configure(router.Settings{Gate: w.gate}) // without a debounce
	forwarded := 0
	for i, step := range []struct {
		answer string
		want   bool
	}{
		{"I would rather not say.", false},
		{"", false},
		{"Maybe.", true},
		{"Well.", true},
		{`{"forward": false}`, false},
		{"Again nothing.", false},
		{`{"forward": true}`, true},
		{"error", false}, // it fails, or is late
	} {
		answer.Store(step.answer)
		w.say(strconv.Itoa(i+1), "7", "anyone?", surface.Facts{})
		w.settled()
		w.judged()
		w.settled()
		sent := w.sent()
		if got := len(sent) > forwarded; got != step.want {
			t.Errorf("%d. %q: forwarded %v", i, step.answer, got)
		}
		if forwarded = len(sent); step.want && forwarded > 0 {
			w.lifecycle(sent[forwarded-1].Request, event.StateDone)
			w.settled()
		}
	}
	w.stop()
	if want := []bool{false, false, true, true, false, false}; !slices.Equal(w.unreadable, want) {
		t.Errorf("reported %v, want %v", w.unreadable, want)
	}
}

func FuzzTheVerdictOfTheGate(f *testing.F) {
	for _, seed := range []string{`{"forward": true}`, "```json\n{\"forward\":false}\n```", `{{{"forward":"yes"`, `{"forward": true} {"forward": false}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, answer string) {
		gate := router.ModelGate(func() llm.Model { return says(answer) })
		if got, err := gate(t.Context(), nil); err != nil && got.Forward {
			t.Errorf("%q: yes, with the error %v", answer, err)
		}
	})
}
