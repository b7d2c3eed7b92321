package callables

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"lilac/internal/core/surface"
	"lilac/internal/core/workflow"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/schedule"
	"lilac/internal/serve/toolserver"
)

// The kinds of waits that this package treats differently from the others.
const (
	kindWaitForReply = "wait_for_reply"
	kindSendAndWait  = "send_and_wait"
)

// waitInput is one task of a workflow in an input.
type waitInput struct {
	Kind        string `json:"kind" enum:"wait_for_reply,send_and_wait,wait_until,delay,wait_for_event" jsonschema:"wait_for_reply takes sessionId, messageId, userId, timeout; send_and_wait takes sessionId, text, userId, timeout; wait_until takes at; delay takes delay; wait_for_event takes types, if, timeout."`
	Description string `json:"description" max:"1000" jsonschema:"What is waited for, in words for a person; the summary when left out."`
	replyFields
	MessageID        string   `json:"messageId,omitempty" max:"128" jsonschema:"The message that is replied to."`
	ReplyToMessageID string   `json:"replyToMessageId,omitempty" max:"128" jsonschema:"A message of the conversation that it replies to."`
	Text             string   `json:"text,omitempty" max:"2000" jsonschema:"What to send. @name mentions and notifies a person."`
	At               string   `json:"at,omitempty" jsonschema:"A moment, like 2026-11-22T09:00:00+01:00."`
	Delay            string   `json:"delay,omitempty" jsonschema:"How long, like 45m, 2h or 3d."`
	Types            []string `json:"types,omitempty" max:"16" jsonschema:"Types of events, like custom.build.done or webhook.*."`
	If               string   `json:"if,omitempty" max:"2000" jsonschema:"A jq expression on the event that has to hold, like .payload.ok == true. It looks and compares: paths, literals, and functions such as any, select, contains and test; it makes nothing."`
}

// wait is a wait of any kind.
type wait struct {
	waitInput
	scheduleFields
}

// spec returns the task for an input: names become ids, and durations and times
// become numbers. The description stays as it is.
func (w workflows) spec(ctx context.Context, caller toolserver.Caller, in wait) (s workflow.Spec, err error) {
	s = workflow.Spec{Kind: in.Kind, Description: in.Description}
	out := workflow.TaskInput{Cron: in.Cron, Timezone: in.Timezone, Missed: in.Missed, Types: in.Types, If: in.If}
	for _, read := range []func() error{
		func() (err error) { out.TimeoutMS, err = milliseconds("timeout", in.Timeout); return err },
		func() (err error) { out.DelayMS, err = milliseconds("delay", in.Delay); return err },
		func() (err error) { out.At, err = instant("at", in.At); return err },
		func() (err error) { out.Until, err = instant("until", in.Until); return err },
	} {
		if err := read(); err != nil {
			return s, err
		}
	}
	switch in.Kind {
	case kindWaitForReply, kindSendAndWait:
		if s.Kind, err = w.conversation(ctx, caller, in, &out); err != nil {
			return s, err
		}
	case workflow.KindEvent:
		// A conversation must not read the events of others.
		out.SessionID = caller.SessionID
	}
	if s.Input, err = json.Marshal(out); err != nil {
		return s, fmt.Errorf("encode task: %w", err)
	}
	return s, nil
}

// conversation sets where a reply is expected, if the caller may wait for one
// there, and returns the kind with the name of its surface.
func (w workflows) conversation(ctx context.Context, caller toolserver.Caller, in wait, out *workflow.TaskInput) (kind string, err error) {
	found, id, err := w.surfaces.Find(ctx, caller, in.SessionID)
	if err != nil {
		return "", err
	}
	kind = found.Client() + "." + in.Kind
	out.SessionID, out.MessageID, out.Text, out.ReplyTo = id, in.MessageID, in.Text, in.ReplyToMessageID
	if out.UserID, err = person(ctx, found, caller, id, in.UserID); err != nil {
		return "", err
	}
	switch {
	case in.Kind == kindSendAndWait:
		_, err = prepare(ctx, found, caller, Outgoing{SessionID: id, Text: in.Text, ReplyTo: in.ReplyToMessageID})
	case in.MessageID != "":
		_, err = found.Message(ctx, caller, event.MessageRef{Platform: found.Client(), ChannelID: id, MessageID: in.MessageID})
	case !caller.May(id):
		err = private(caller, id)
	}
	return kind, err
}

// prepare returns a message as its surface would send it, without sending it.
func prepare(ctx context.Context, r Reader, caller toolserver.Caller, m Outgoing) (surface.Send, error) {
	w, err := writer(r, "send messages")
	if err != nil {
		return surface.Send{}, err
	}
	return w.Prepare(ctx, caller, m)
}

// person resolves a form in which a person may be named: an id, <@id> or @name.
func person(ctx context.Context, r Reader, caller toolserver.Caller, sessionID, form string) (string, error) {
	if !strings.HasPrefix(form, "@") {
		return strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(form, "<@"), "!"), ">"), nil
	}
	named, err := prepare(ctx, r, caller, Outgoing{SessionID: sessionID, Text: form})
	if err != nil {
		return "", err
	}
	if len(named.PingUsers) != 1 {
		return "", fault.New(fault.NotFound, "There is no person %s in this conversation.", form)
	}
	return named.PingUsers[0], nil
}

// milliseconds parses a duration; "" is zero.
func milliseconds(field, text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	d, err := schedule.ParseDuration(text)
	if err != nil {
		return 0, fault.InvalidField(field, "%s", fault.ToWire(err).Message)
	}
	return d.Milliseconds(), nil
}

// instant parses a time and returns Unix milliseconds; "" is zero.
func instant(field, text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return 0, fault.InvalidField(field, "%q is not a time; write it with its zone, like 2026-11-22T09:00:00+01:00 or 2026-11-22T08:00:00Z.", text)
	}
	return t.UnixMilli(), nil
}
