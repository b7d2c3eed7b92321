package relay_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/core/outbox"
	"lilac/internal/core/relay"
	"lilac/internal/core/surface"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

var start = time.UnixMilli(1_000_000)

// decide also checks that the decision leaves its state as it was.
func decide(t *testing.T, s relay.State, in relay.Input, after time.Duration) (relay.State, []relay.Effect) {
	t.Helper()
	before, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	next, effects := relay.Decide(s, in, start.Add(after))
	if now, err := json.Marshal(s); err != nil || string(now) != string(before) {
		t.Errorf("the state that was given became %s, it was %s (%v)", now, before, err)
	}
	return next, effects
}

func sentMessage(shown string) relay.Message {
	return relay.Message{Key: "0.0", State: relay.MessageSent, ID: "100", Shown: shown}
}

func live(messages ...relay.Message) relay.State {
	return relay.State{Row: relay.Row{RequestID: request, SessionID: "10", Platform: "discord", Started: true, Messages: messages}}
}

func ended(s relay.State) relay.State {
	s.Row.End = &relay.End{State: event.StateDone, At: start.UnixMilli()}
	s.Pace.Ended, s.Pace.Recalled = start, true
	return s
}

func gaveUp(s relay.State) relay.State {
	s.Row.Reason, s.Pace.GaveUp = "We may not write there.", start
	return s
}

func gone() error {
	f := fault.New(fault.NotFound, "There is no such channel.")
	f.Code = surface.CodeUnknownChannel
	return f
}

func limited(wait time.Duration) error {
	return &fault.Error{Kind: fault.RateLimited, Message: "later", RetryAfter: wait}
}

func TestTheOutcomeOfAnEditDecidesWhatFollows(t *testing.T) {
	view := relay.View{Key: "0.0", Text: "hello"}
	edit := relay.Edit{Message: sentMessage(""), View: view}
	failure := func(k fault.Kind) error { return fault.New(k, "no") }
	failed := func(s relay.State, n int) relay.State { s.Pace.Failures = n; return s }
	for name, c := range map[string]struct {
		state   relay.State
		err     error
		ended   bool
		after   time.Duration
		message relay.MessageState
		reason  string
		retry   time.Duration // after the outcome
		effects []string
	}{
		"done":                                {state: live(sentMessage("")), message: relay.MessageSent},
		"the message was deleted":             {state: live(sentMessage("")), err: failure(fault.NotFound), message: relay.MessageLost},
		"the message takes no more edits":     {state: live(sentMessage("")), err: failure(fault.Conflict), message: relay.MessagePlanned, effects: []string{"plan"}},
		"rate limited":                        {state: live(sentMessage("")), err: limited(5 * time.Second), message: relay.MessageSent, retry: 5 * time.Second},
		"rate limited for long":               {state: live(sentMessage("")), err: limited(time.Hour), message: relay.MessageSent, retry: time.Minute},
		"unavailable":                         {state: live(sentMessage("")), err: failure(fault.Unavailable), message: relay.MessageSent, retry: 2 * time.Second, effects: []string{"retry"}},
		"unavailable again":                   {state: failed(live(sentMessage("")), 2), err: failure(fault.Unavailable), message: relay.MessageSent, retry: 8 * time.Second, effects: []string{"retry"}},
		"unavailable many times":              {state: failed(live(sentMessage("")), 60), err: failure(fault.Unavailable), message: relay.MessageSent, retry: 30 * time.Second, effects: []string{"retry"}},
		"invalid, while the answer goes on":   {state: live(sentMessage("")), err: failure(fault.Invalid), message: relay.MessageSent, retry: 2 * time.Second, effects: []string{"retry"}},
		"invalid, at the end":                 {state: ended(live(sentMessage(""))), err: failure(fault.Invalid), ended: true, message: relay.MessageLost, effects: []string{"leave"}},
		"unavailable, at the end":             {state: ended(live(sentMessage(""))), err: failure(fault.Unavailable), ended: true, message: relay.MessageSent, retry: 2 * time.Second, effects: []string{"retry"}},
		"unavailable, a day after the end":    {state: ended(live(sentMessage(""))), err: failure(fault.Unavailable), ended: true, after: 24 * time.Hour, message: relay.MessageLost, effects: []string{"leave"}},
		"refused":                             {state: live(sentMessage("")), err: failure(fault.Denied), message: relay.MessageSent, reason: "no"},
		"the channel is gone":                 {state: live(sentMessage("")), err: gone(), message: relay.MessageSent, reason: "There is no such channel."},
		"refused again, after giving up":      {state: gaveUp(ended(live(sentMessage("")))), err: failure(fault.Denied), ended: true, message: relay.MessageSent, reason: "We may not write there.", retry: 2 * time.Second},
		"refused for long, after giving up":   {state: failed(gaveUp(ended(live(sentMessage("")))), 60), err: failure(fault.Denied), ended: true, message: relay.MessageSent, reason: "We may not write there.", retry: time.Minute},
		"the channel is gone after giving up": {state: gaveUp(ended(live(sentMessage("")))), err: gone(), ended: true, message: relay.MessageLost, reason: "We may not write there."},
	} {
		t.Run(name, func(t *testing.T) {
			next, effects := decide(t, c.state, relay.EditDone{Edit: edit, Ended: c.ended, Err: c.err}, c.after)
			if m := next.Row.Messages[0]; m.State != c.message {
				t.Errorf("the message is %s, want %s", m.State, c.message)
			}
			if next.Row.Reason != c.reason {
				t.Errorf("reason %q, want %q", next.Row.Reason, c.reason)
			}
			var retry time.Duration
			if !next.Pace.RetryAt.IsZero() {
				retry = next.Pace.RetryAt.Sub(start.Add(c.after))
			}
			if retry != c.retry {
				t.Errorf("the next call is in %s, want %s", retry, c.retry)
			}
			if diff := cmp.Diff(c.effects, names(effects)); diff != "" {
				t.Errorf("effects: -want +got\n%s", diff)
			}
		})
	}
}

// names names effects, and the time of a wait.
func names(effects []relay.Effect) (out []string) {
	for _, e := range effects {
		switch e := e.(type) {
		case relay.Plan:
			out = append(out, "plan")
		case relay.Resend:
			out = append(out, "resend")
		case relay.Announce:
			out = append(out, "announce")
		case relay.Withdraw:
			out = append(out, "withdraw")
		case relay.Cancel:
			out = append(out, "cancel")
		case relay.Recall:
			out = append(out, "recall")
		case relay.Show:
			out = append(out, map[bool]string{true: "show the end", false: "show"}[e.Ended])
		case relay.Edit:
			out = append(out, "edit")
		case relay.Delete:
			out = append(out, "delete")
		case relay.CheckPause:
			out = append(out, "check pause")
		case relay.ShowTyping:
			out = append(out, "typing")
		case relay.Wait:
			out = append(out, "wait "+e.For.String())
		case relay.Report:
			out = append(out, map[bool]string{true: "retry", false: "leave"}[e.Retry])
		}
	}
	return out
}

func TestACheckFindsOutWhetherTheOutputHasEnded(t *testing.T) {
	unended := live(sentMessage("x"))
	fresh := ended(live(sentMessage("x")))
	fresh.Pace = relay.Pace{}
	reasoned := live(sentMessage("x"))
	reasoned.Row.Reason = "no"
	reasonedEnded := ended(reasoned)
	for name, c := range map[string]struct {
		state    relay.State
		in       relay.Checked
		after    time.Duration
		want     []string
		finished bool
	}{
		"running":                                    {state: unended, want: []string{"show", "wait 1m0s"}},
		"the request ended, its output did not":      {state: fresh, want: []string{"show", "wait 10s"}},
		"the output's end did not arrive in time":    {state: ended(live()), after: 10 * time.Second, want: []string{"show the end", "wait 1m0s"}},
		"the bus is unavailable: its end may arrive": {state: ended(live()), in: relay.Checked{Delayed: true}, after: time.Minute, want: []string{"show", "wait 1m0s"}},
		"the output can never be read":               {state: ended(live()), in: relay.Checked{Unreadable: true}, want: []string{"show the end", "wait 1m0s"}},
		"complete, first the journal is read":        {state: fresh, in: relay.Checked{Complete: true}, want: []string{"recall"}},
		"complete":                                   {state: ended(live()), in: relay.Checked{Complete: true}, want: []string{"show the end", "wait 1m0s"}},
		"nothing can be shown: the relay gives up":   {state: reasoned, want: []string{"cancel", "withdraw"}},
		"the same, and the request has ended":        {state: reasonedEnded, want: []string{"withdraw"}},
		"given up, the end is not known yet":         {state: gaveUp(unended), want: []string{"wait 1m0s"}},
		"given up, messages are closed":              {state: gaveUp(ended(live(sentMessage("x")))), in: relay.Checked{Complete: true}, want: []string{"show the end", "wait 1m0s"}},
		"given up, no message is left":               {state: gaveUp(ended(live())), finished: true},
		"given up a day ago":                         {state: gaveUp(ended(live(sentMessage("x")))), after: 24 * time.Hour, finished: true},
	} {
		t.Run(name, func(t *testing.T) {
			next, effects := decide(t, c.state, c.in, c.after)
			if diff := cmp.Diff(c.want, names(effects)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			if next.Row.Finished != c.finished {
				t.Errorf("finished: %t, want %t", next.Row.Finished, c.finished)
			}
		})
	}
}

func TestViewsAreComparedWithTheMessages(t *testing.T) {
	view := func(key, text string) relay.View { return relay.View{Key: key, Text: text} }
	// The fingerprint of the view "0.0" with the text "hello".
	shown, _ := decide(t, live(), relay.Rendered{Basis: live().Row, Views: []relay.View{view("0.0", "hello")}}, 0)
	current := sentMessage(shown.Row.Messages[0].Shown)
	planned := relay.Message{Key: "0.0", State: relay.MessagePlanned}
	copied := sentMessage(current.Shown)
	copied.Old = "99"
	paced := func(s relay.State, edited, retryAt time.Duration) relay.State {
		s.Pace.Edited, s.Pace.RetryAt = start.Add(edited), start.Add(retryAt)
		return s
	}
	hello := []relay.View{view("0.0", "hello")}
	for name, c := range map[string]struct {
		state    relay.State
		in       relay.Rendered
		want     []string
		finished bool
	}{
		"a new message is planned":           {state: live(), in: relay.Rendered{Views: hello}, want: []string{"plan", "wait 1m0s"}},
		"an unsent message is planned":       {state: live(relay.Message{Key: "0.0", State: relay.MessageUnsent}), in: relay.Rendered{Views: hello}, want: []string{"plan", "wait 1m0s"}},
		"a planned message is awaited":       {state: live(planned), in: relay.Rendered{Views: hello, Ended: true}, want: []string{"wait 1m0s"}},
		"a reply waits for the other's id":   {state: live(planned), in: relay.Rendered{Views: append(hello, relay.View{Key: "files.1", ReplyToKey: "0.0"})}, want: []string{"wait 1m0s"}},
		"a changed message is edited":        {state: live(sentMessage("old")), in: relay.Rendered{Views: hello}, want: []string{"edit"}},
		"an edit keeps its interval":         {state: paced(live(sentMessage("old")), -time.Second, 0), in: relay.Rendered{Views: hello, Interval: 3 * time.Second}, want: []string{"wait 2s"}},
		"the last edit does not":             {state: paced(live(sentMessage("old")), -time.Second, 0), in: relay.Rendered{Views: hello, Ended: true, Interval: 3 * time.Second}, want: []string{"edit"}},
		"a retry waits, even at the end":     {state: paced(live(sentMessage("old")), 0, 5*time.Second), in: relay.Rendered{Views: hello, Ended: true}, want: []string{"wait 5s"}},
		"a current message stays":            {state: live(current), in: relay.Rendered{Views: hello}, want: []string{"wait 1m0s"}},
		"all is shown: the relay finishes":   {state: live(current), in: relay.Rendered{Views: hello, Ended: true}, finished: true},
		"an old copy is deleted":             {state: live(copied), in: relay.Rendered{Views: hello}, want: []string{"delete"}},
		"a message without a view goes":      {state: live(current), in: relay.Rendered{Ended: true}, want: []string{"delete"}},
		"but not before the end":             {state: live(current), in: relay.Rendered{}, want: []string{"wait 1m0s"}},
		"a lost message is left alone":       {state: live(relay.Message{Key: "0.0", State: relay.MessageLost}), in: relay.Rendered{Views: hello, Ended: true}, finished: true},
		"one edit, then the outcome decides": {state: live(sentMessage("old")), in: relay.Rendered{Views: append(hello, view("0.1", "more"))}, want: []string{"edit"}},
		"the pass continues behind it":       {state: live(sentMessage("old")), in: relay.Rendered{Views: append(hello, view("0.1", "more")), After: "0.0"}, want: []string{"plan", "wait 1m0s"}},
		"a pass that continues ends nothing": {state: live(current), in: relay.Rendered{Views: hello, Ended: true, After: "0.0"}, want: []string{"wait 1m0s"}},
		"given up: nothing new is sent":      {state: gaveUp(live(current)), in: relay.Rendered{Views: append(hello, view("0.1", "more")), Ended: true, MaxText: 2000}, want: []string{"edit"}},
	} {
		t.Run(name, func(t *testing.T) {
			c.in.Basis = c.state.Row
			next, effects := decide(t, c.state, c.in, 0)
			if diff := cmp.Diff(c.want, names(effects)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			if next.Row.Finished != c.finished {
				t.Errorf("finished: %t, want %t", next.Row.Finished, c.finished)
			}
		})
	}
	t.Run("views of an older row have no effect", func(t *testing.T) {
		if _, effects := decide(t, live(current), relay.Rendered{Basis: live(planned).Row, Ended: true}, 0); effects != nil {
			t.Errorf("effects: %v", effects)
		}
	})
	t.Run("an edit in flight leaves no fingerprint", func(t *testing.T) {
		next, _ := decide(t, live(sentMessage("old")), relay.Rendered{Basis: live(sentMessage("old")).Row, Views: hello}, 0)
		if m := next.Row.Messages[0]; m.Shown != "" {
			t.Errorf("it shows %q", m.Shown)
		}
	})
}

func TestTheOutcomeOfAnOutboxRowDecidesAboutItsMessage(t *testing.T) {
	planned := relay.Message{Key: "0.0", State: relay.MessagePlanned}
	files := surface.Send{Content: surface.Content{Text: "hello"}, Files: []surface.File{{Name: "a"}}}
	onlyFiles := surface.Send{Files: files.Files}
	late := ended(live(planned))
	late.Row.End.At = 5
	for name, c := range map[string]struct {
		state  relay.State
		row    outbox.Row
		want   relay.MessageState
		reason string
		names  []string
	}{
		"sent":                                 {live(planned), outbox.Row{State: outbox.Sent, MessageID: "100"}, relay.MessageSent, "", []string{"announce"}},
		"withdrawn":                            {live(planned), outbox.Row{State: outbox.Failed, Withdrawn: true, Reason: "no"}, relay.MessageUnsent, "", nil},
		"refused":                              {live(planned), outbox.Row{State: outbox.Failed, Reason: "no"}, relay.MessageLost, "no", nil},
		"refused with files":                   {live(planned), outbox.Row{State: outbox.Failed, Reason: "no", Send: files}, relay.MessagePlanned, "", []string{"resend"}},
		"only files, refused":                  {live(planned), outbox.Row{State: outbox.Failed, Reason: "no", Send: onlyFiles}, relay.MessageLost, "", nil},
		"expired while the request runs":       {live(planned), outbox.Row{State: outbox.Expired, CreatedAt: 7}, relay.MessageUnsent, "", []string{"withdraw"}},
		"expired, planned before the end":      {late, outbox.Row{State: outbox.Expired, CreatedAt: 4}, relay.MessageUnsent, "", []string{"withdraw"}},
		"expired, planned after the end":       {late, outbox.Row{State: outbox.Expired, CreatedAt: 6}, relay.MessageLost, "", nil},
		"expired, it may have been sent":       {live(planned), outbox.Row{State: outbox.Expired, Unsure: true, CreatedAt: 7}, relay.MessageLost, "", nil},
		"sent late, to a finished relay":       {relay.State{Row: relay.Row{Finished: true, Messages: []relay.Message{planned}}}, outbox.Row{State: outbox.Sent, MessageID: "100"}, relay.MessageSent, "", []string{"announce"}},
		"control: refused, the first is named": {gaveUp(live(planned)), outbox.Row{State: outbox.Failed, Reason: "no"}, relay.MessageLost, "We may not write there.", nil},
	} {
		t.Run(name, func(t *testing.T) {
			next, effects := decide(t, c.state, relay.RowFinished{Key: "0.0", Row: c.row}, 0)
			if m := next.Row.Messages[0]; m.State != c.want || next.Row.Reason != c.reason {
				t.Errorf("%s with the reason %q, want %s and %q", m.State, next.Row.Reason, c.want, c.reason)
			}
			if diff := cmp.Diff(c.names, names(effects)); diff != "" {
				t.Errorf("effects: -want +got\n%s", diff)
			}
		})
	}
}

func TestASilentRequestIsStoppedUnlessItWaitsForAPerson(t *testing.T) {
	in := relay.Attended{Heard: start, IdleLimit: 5 * time.Minute, Typing: true}
	visible := in
	visible.Visible = true
	stopped := live()
	stopped.Pace.Stopped = true
	for name, c := range map[string]struct {
		state relay.State
		in    relay.Input
		after time.Duration
		want  []string
	}{
		"nothing is visible": {live(), in, time.Second, []string{"typing", "wait 8s"}},
		"visible":            {live(), visible, time.Second, []string{"wait 4m59s"}},
		"silent for long":    {live(), visible, 5 * time.Minute, []string{"check pause", "wait 5m0s"}},
		"not paused":         {live(), relay.PauseChecked{}, 0, []string{"cancel"}},
		"paused":             {live(), relay.PauseChecked{Paused: true}, 0, nil},
		"stopped before":     {stopped, visible, 6 * time.Minute, []string{"wait 5m0s"}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, effects := decide(t, c.state, c.in, c.after); !cmp.Equal(c.want, names(effects)) {
				t.Errorf("got %q, want %q", names(effects), c.want)
			}
		})
	}
}
