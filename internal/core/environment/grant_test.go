package environment_test

import (
	"encoding/json"
	"testing"

	"lilac/internal/core/environment"
	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/grant"
	"lilac/internal/store"
)

func delivered(id, session string) event.EnvEvent {
	return event.EnvEvent{ID: id, Type: event.WebhookReceived, Payload: []byte(`{}`), Metadata: event.EnvMetadata{TriggerSessionID: session, EnvName: "github", Source: "env"}}
}

// What a request that a webhook triggers may use is decided by the rule, else by the
// webhook, else it is only reading.
func TestAWebhooksRequestMayOnlyReadUnlessTheConfigurationSaysMore(t *testing.T) {
	all := []string{"read", "bash", "task.start", "surface.messages.send", "workflow.schedule"}
	for name, c := range map[string]struct {
		e             event.EnvEvent
		rule, webhook grant.Tools
		want          string
	}{
		"a webhook":                       {delivered("e", "s"), grant.Tools{}, grant.Tools{}, `["read"]`},
		"a webhook, the rule only denies": {delivered("e", "s"), grant.Tools{Deny: []string{"read"}}, grant.Tools{}, `null`},
		"a webhook, the rule allows":      {delivered("e", "s"), grant.Tools{Allow: []string{"bash"}}, grant.Tools{}, `["bash"]`},
		"a webhook, the rule allows all":  {delivered("e", "s"), grant.Tools{Allow: []string{"*"}, Deny: []string{"task"}}, grant.Tools{}, `["read","bash","surface.messages.send","workflow.schedule"]`},
		"the webhook allows":              {delivered("e", "s"), grant.Tools{}, grant.Tools{Allow: []string{"bash", "read"}}, `["read","bash"]`},
		"the rule says less":              {delivered("e", "s"), grant.Tools{Deny: []string{"bash"}}, grant.Tools{Allow: []string{"bash", "read"}}, `["read"]`},
		"the rule decides":                {delivered("e", "s"), grant.Tools{Allow: []string{"bash"}}, grant.Tools{Allow: []string{"read"}}, `["bash"]`},
		"control: another event":          {custom("e", "s"), grant.Tools{}, grant.Tools{}, `["read","bash","task.start","surface.messages.send","workflow.schedule"]`},
		"another event with a rule":       {custom("e", "s"), grant.Tools{Allow: []string{"task"}}, grant.Tools{}, `["task.start"]`},
		"a cause with restrictions": {
			environment.Restricted(custom("e", "s"), grant.Of(grant.Tools{Allow: []string{"read", "task"}})), grant.Tools{Deny: []string{"task"}}, grant.Tools{}, `["read"]`,
		},
		"a cause cannot allow more": {
			environment.Restricted(delivered("e", "s"), grant.Of(grant.Tools{Allow: []string{"*"}})), grant.Tools{}, grant.Tools{}, `["read"]`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := rule("ci", 60, "*")
			r.Action, r.Tools = &environment.Agent{}, c.rule
			trial := environment.Try([]environment.Rule{r}, c.e, func(event.Type, string) grant.Tools { return c.webhook })
			got, err := json.Marshal(trial.Tools.Filter(all))
			if err != nil || string(got) != c.want {
				t.Errorf("it may use %s, want %s (%v)", got, c.want, err)
			}
		})
	}
}

func commandsBySession(t *testing.T, events []event.Event) map[string]event.RequestMessage {
	t.Helper()
	out := map[string]event.RequestMessage{}
	for _, e := range events {
		p, err := event.Decode(e)
		if err != nil {
			t.Fatal(err)
		}
		out[e.Headers.SessionID()] = p.(event.RequestMessage)
	}
	return out
}

// A restriction follows an event through rules that publish others, and an event that a
// request causes gives no more than the request has. Restricted events do not join a
// request that runs.
func TestRestrictionsFollowEventsThroughRules(t *testing.T) {
	w := newWorld(t)
	publish, err := environment.Compile(environment.Spec{Name: "derive", Types: []string{"webhook.*"}, If: `.metadata.trigger_session_id == "derived"`, Enabled: true, PublishType: "custom.made"})
	if err != nil {
		t.Fatal(err)
	}
	wake := rule("wake", 60, "*")
	wake.Action = &environment.Agent{}
	w.start(w.store().Inbox, publish, wake)
	journal := func(g grant.Grant) {
		err := w.db.Update(t.Context(), func(tx *db.Tx) error {
			return store.Journal{}.Record(tx, "web:x:narrow", session.Entry{Kind: "started", Data: map[string]any{"grant": g}})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	journal(grant.Of(grant.Tools{From: "the rule first", Allow: []string{"grep"}}))
	w.publish(delivered("w1", "direct"))
	w.publish(delivered("w2", "derived"))
	w.publish(environment.CausedBy(custom("c1", "caused"), "web:x:narrow"))
	w.publish(environment.CausedBy(custom("c2", "unknown"), "web:x:never-heard-of"))
	w.publish(custom("c3", "free"))
	got := commandsBySession(t, w.commands(5))
	for session, want := range map[string]struct {
		read, grep, bash bool
		queue            event.Queue
	}{
		"direct":  {true, true, false, event.Prompt},
		"derived": {true, true, false, event.Prompt},
		"caused":  {false, true, false, event.Prompt},
		"unknown": {true, true, true, event.FollowUp},
		"free":    {true, true, true, event.FollowUp},
	} {
		m, ok := got[session]
		if !ok {
			t.Errorf("%s: the agent was not woken", session)
			continue
		}
		if m.Grant.Allows("read") != want.read || m.Grant.Allows("grep") != want.grep || m.Grant.Allows("bash") != want.bash || m.Queue != want.queue || m.AnyActive != (want.queue == event.FollowUp) {
			t.Errorf("%s: %+v, queue %s, joins any request: %t", session, m.Grant, m.Queue, m.AnyActive)
		}
	}
}
