package workflow_test

import (
	"testing"
	"time"

	"lilac/internal/core/workflow"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/grant"
)

// The requests of a workflow may use what the request that created it may, and an event
// from strangers that it waits for restricts them further.
func TestAWorkflowInheritsRestrictions(t *testing.T) {
	channel := grant.Of(grant.Tools{From: "the channel 5", Deny: []string{"task"}})
	stranger := grant.Of(grant.Tools{From: "the default for webhooks", Allow: grant.Reading})
	for name, c := range map[string]struct {
		request, ev grant.Grant
		bash, task  bool
	}{
		"control: no restrictions":     {nil, nil, true, true},
		"of the request":               {channel, nil, true, false},
		"of the event":                 {nil, stranger, false, false},
		"of the request and the event": {channel, stranger, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.causes = &causes{pays: 1, grant: c.request, eventGrant: c.ev}
			w.restart()
			w.submit(definition("w1", "", spec("e", workflow.KindEvent, workflow.TaskInput{Types: []string{"custom.x"}, TimeoutMS: time.Hour.Milliseconds()})))
			w.restart()
			if err := w.svc.Observe(t.Context(), event.EnvEvent{ID: "e1", Type: "custom.x", Payload: []byte("{}")}); err != nil {
				t.Fatal(err)
			}
			woken, err := w.bus.Fetch(t.Context(), event.TopicCmdRequest, "", 10)
			if err != nil || len(woken) != 1 {
				t.Fatalf("%d requests: %v", len(woken), err)
			}
			p, err := event.Decode(woken[0].Event)
			if err != nil {
				t.Fatal(err)
			}
			g := p.(event.RequestMessage).Grant
			if g.Allows("bash") != c.bash || g.Allows("task") != c.task || !g.Allows("read") {
				t.Errorf("its request has %+v", g)
			}
		})
	}
}
