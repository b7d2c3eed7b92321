package task_test

import (
	"encoding/json"
	"testing"

	"lilac/internal/core/task"
	"lilac/internal/engine/bus"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/grant"
)

// A sub-agent may use what the request that started it may, and so may the requests that
// its end causes.
func TestATaskInheritsTheRestrictionsOfItsRequest(t *testing.T) {
	reading := grant.Of(grant.Tools{From: "the rule ci", Allow: []string{"read", "task"}})
	for name, g := range map[string]grant.Grant{"restricted": reading, "control: not restricted": nil} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				made := w.start(task.Spec{SessionID: "s", RequestID: "web:s:r", Client: "web", Prompt: "look", Grant: g})
				var prompt event.RequestMessage
				for _, d := range fetched(t, w, event.TopicCmdRequest) {
					if p, err := event.Decode(d.Event); err == nil {
						prompt = p.(event.RequestMessage)
					}
				}
				if prompt.Grant.Allows("bash") != (g == nil) || !prompt.Grant.Allows("read") {
					t.Errorf("the sub-agent has %+v", prompt.Grant)
				}
				if _, err := w.svc.Stop(t.Context(), made.ID, task.ByAgent); err != nil {
					t.Fatal(err)
				}
				ends := 0
				for _, d := range fetched(t, w, event.TopicEnv) {
					var env event.EnvEvent
					if err := json.Unmarshal(d.Data, &env); err != nil {
						t.Fatal(err)
					}
					if _, has := env.Metadata.Extra[event.MetadataGrant]; has != (g != nil) {
						t.Errorf("%s: restrictions in the event: %t", env.Type, has)
					}
					ends++
				}
				if ends == 0 {
					t.Error("no event was published")
				}
			})
		})
	}
}

func fetched(t *testing.T, w *world, topic event.Topic) []bus.Delivery {
	t.Helper()
	all, err := w.bus.Fetch(t.Context(), topic, "", 1000)
	if err != nil {
		t.Fatal(err)
	}
	return all
}
