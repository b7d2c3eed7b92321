package e2e_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"

	"lilac/internal/foundation/event"
	"lilac/internal/testkit/discordtest"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/llmtest"
)

// The event stream shows a request in the same way on every surface: start, thinking, tool calls,
// text, and end.
func TestTheEventStreamTellsOfEverySurface(t *testing.T) {
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		model := llmtest.New(t, func(r llmtest.Request) llmtest.Script {
			switch {
			case strings.HasSuffix(lastOfPerson(r), "fail"):
				return llmtest.Script{Status: 400, ErrorMessage: "no"}
			case len(r.Messages[len(r.Messages)-1].Results) == 0:
				return llmtest.Script{Reasoning: []string{"let me look"}, Text: []string{"I look."}, Calls: []llmtest.Call{{ID: "call-1", Name: "glob", Input: `{"pattern":"*"}`}}}
			}
			return llmtest.Say("It is empty.")
		})
		s, d := onDiscord(t, bus, model.URL)
		web := s.NewSession()
		for name, ask := range map[string]func(text string) (session, request string){
			"web": func(text string) (string, string) { return web, s.Prompt(web, text, event.Prompt).RequestID },
			"discord": func(text string) (string, string) {
				return d.General, e2e.RequestID(d.General, d.Say(d.General, d.Ada, d.Self().Mention()+" "+text, discordtest.SayOptions{}))
			},
		} {
			t.Run(name, func(t *testing.T) {
				for text, want := range map[string][]string{
					"look": {"stream.start", "stream.reasoning", "stream.text", "stream.tool_call", "stream.text", "stream.completed"},
					"fail": {"stream.start", "stream.error"},
				} {
					session, request := ask(text)
					s.WaitEnded(request, answerWithin)
					if got := streamed(t, s, session, request, want[len(want)-1]); !slices.Equal(got, want) {
						t.Errorf("of %q the stream tells %q, want %q", text, got, want)
					}
				}
			})
		}
	})
}

// streamed returns the event types of a request in its session's stream, in order and without
// adjacent duplicates. It checks that all of them name their session and request.
func streamed(t *testing.T, s *e2e.Server, session, request, last string) (types []string) {
	t.Helper()
	var mu sync.Mutex
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Stream(ctx, "from=begin&session_id="+session, "", func(f e2e.Frame) {
			var p struct {
				RequestID string `json:"requestId"`
			}
			if !strings.HasPrefix(f.Event, "stream.") || json.Unmarshal(f.Data.Payload, &p) != nil || p.RequestID != request {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if f.Data.Metadata.TriggerSessionID != session || f.Data.Metadata.Source != "llm" || string(f.Data.Type) != f.Event {
				t.Errorf("a frame says %+v", f.Data)
			}
			if len(types) == 0 || types[len(types)-1] != f.Event {
				types = append(types, f.Event)
			}
		})
	}()
	e2e.Poll(answerWithin, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(types) > 0 && types[len(types)-1] == last
	})
	stop()
	<-done
	return types
}
