package environment

import "lilac/internal/foundation/event"

// Trial says what an event would set off.
type Trial struct {
	// Rule is empty when no rule handles the event.
	Rule string `json:"rule,omitempty"`
	Does string `json:"does,omitempty"`
	// Session is where, as an id or "title:" and a title.
	Session string `json:"session,omitempty"`
	// Deliver and Prompt are what the agent would get after the event.
	Deliver event.Queue `json:"deliver,omitempty"`
	Prompt  string      `json:"prompt,omitempty"`
	// Event is what would be published.
	Event *event.EnvEvent `json:"event,omitempty"`
	// Debounce, Rate and DryRun may hold it back.
	Debounce string `json:"debounce,omitempty"`
	Rate     string `json:"rate,omitempty"`
	DryRun   bool   `json:"dryRun,omitempty"`
	// Problem is why the rule could not do it.
	Problem string `json:"problem,omitempty"`
	// Looks are the rules in the order in which they were looked at.
	Looks []Look `json:"looks"`
}

// Does names what a rule does: function, agent, publish or drop.
func (r Rule) Does() string {
	switch {
	case r.Agent != nil:
		return "agent"
	case r.Publish != nil:
		return "publish"
	case r.Drop:
		return "drop"
	}
	return "function"
}

// Try says what the event would set off, and does nothing.
func Try(rules []Rule, e event.EnvEvent) Trial {
	r, ok, looks := Match(rules, e)
	t := Trial{Looks: looks}
	if !ok {
		return t
	}
	t.Rule, t.Does, t.Rate, t.DryRun = r.Name, r.Does(), r.Rate.String(), r.DryRun
	t.Session = e.Metadata.TriggerSessionID
	if r.Debounce > 0 {
		t.Debounce = r.Debounce.String()
	}
	var err error
	if r.Target != nil {
		if t.Session, err = r.Target(e); err != nil {
			t.Problem = err.Error()
			return t
		}
	}
	switch {
	case r.Agent != nil:
		t.Deliver = r.Agent.Deliver
		if t.Deliver == "" {
			t.Deliver = event.FollowUp
		}
		if t.Prompt, err = r.Agent.query(r.Name, e); err == nil && t.Session == "" {
			t.Problem = "The event has no session and the rule names none: nobody would be woken."
		}
	case r.Publish != nil:
		var next event.EnvEvent
		next, err = r.Publish(e)
		next.Metadata.TriggerSessionID = t.Session
		t.Event = &next
	}
	if err != nil {
		t.Problem = err.Error()
	}
	return t
}
