package callables

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"lilac/internal/core/task"
	"lilac/internal/core/workflow"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/schedule"
	"lilac/internal/foundation/text"
	"lilac/internal/serve/toolserver"
)

// Workflows keeps what waits; see [workflow.Service].
type Workflows interface {
	Submit(ctx context.Context, from workflow.Origin, visible func(workflow.Workflow) bool, payloads ...event.Payload) error
	Get(ctx context.Context, id string) (workflow.Workflow, error)
	List(ctx context.Context, sessionID string, waiting bool, limit int, before string) ([]workflow.Workflow, error)
}

// Asker returns the person whose message a request answers, as the platform's
// id, or "".
type Asker func(ctx context.Context, requestID string) (userID string, err error)

// waiting joins what the callables workflow.* need.
type waiting struct {
	places Places
	flows  Workflows
	asker  Asker
}

// maxDescription bounds, in characters, the description that is made of a summary.
const maxDescription = 200

// Pieces of the schemas of workflow.*.
const (
	summaryField  = `"summary":{"type":"string","minLength":1,"maxLength":2000,"description":"What it is for. You read it when you are woken, maybe days later: write what was asked, by whom, and what to do then."}`
	describeField = `"description":{"type":"string","maxLength":1000,"description":"What is waited for, in words for a person; the summary when left out."}`
	timeoutField  = `"timeout":{"type":"string","description":"How long to wait at most, like 90m, 36h or 3d; 30d when left out. You are woken then, too."}`
	userField     = `"userId":{"type":"string","maxLength":128,"description":"Only a reply of this person counts: an id, <@id> or @name."}`
	mentionField  = `"mention":{"type":"boolean","description":"Begin the answer with a mention of the person who asks you now."}`
	keyField      = `"key":{"type":"string","maxLength":128,"description":"Tells this call from another one of the same request that says the same."}`
	flowField     = `"workflowId":{"type":"string","minLength":1,"maxLength":64,"description":"The workflow."}`
	replyToField  = `"replyToMessageId":{"type":"string","maxLength":128,"description":"A message of the conversation that it replies to."}`
	kindField     = `"kind":{"type":"string","enum":["wait_for_reply","send_and_wait","wait_until","delay","wait_for_event"],"description":"wait_for_reply takes sessionId, messageId, userId, timeout; send_and_wait takes sessionId, text, userId, timeout; wait_until takes at; delay takes delay; wait_for_event takes types, if, timeout."}`
	taskFields    = kindField + `,` + sessionField + `,
"messageId":{"type":"string","maxLength":128,"description":"The message that is replied to."},` + userField + `,` + replyToField + `,
"text":{"type":"string","maxLength":2000,"description":"What to send. @name mentions and notifies a person."},` + timeoutField + `,
"at":{"type":"string","description":"A moment, like 2026-11-22T09:00:00+01:00."},
"delay":{"type":"string","description":"How long, like 45m, 2h or 3d."},
"types":{"type":"array","items":{"type":"string"},"maxItems":16,"description":"Types of events, like custom.build.done or webhook.*."},
"if":{"type":"string","maxLength":2000,"description":"A jq expression on the event that has to hold, like .payload.ok == true. It looks and compares: paths, literals, and functions such as any, select, contains and test; it makes nothing."}`
	endYourTurn = "\nIt returns at once. Say what you wait for and end your answer: you are woken in this conversation when it is over. The same call is made once in a request: give another --key to make it again."
)

// taskInput is a task as a caller asks for it.
type taskInput struct {
	Kind             string   `json:"kind"`
	Description      string   `json:"description"`
	SessionID        string   `json:"sessionId"`
	MessageID        string   `json:"messageId"`
	UserID           string   `json:"userId"`
	ReplyToMessageID string   `json:"replyToMessageId"`
	Text             string   `json:"text"`
	Timeout          string   `json:"timeout"`
	At               string   `json:"at"`
	Delay            string   `json:"delay"`
	Types            []string `json:"types"`
	If               string   `json:"if"`
	Cron             string   `json:"cron"`
	Timezone         string   `json:"timezone"`
	Missed           string   `json:"missed"`
	Until            string   `json:"until"`
}

// flowInput is what the callables workflow.* take, each some of it.
type flowInput struct {
	taskInput
	WorkflowID string              `json:"workflowId"`
	Summary    string              `json:"summary"`
	Completion workflow.Completion `json:"completion"`
	Mention    bool                `json:"mention"`
	Key        string              `json:"key"`
	Tasks      []taskInput         `json:"tasks"`
	Reason     string              `json:"reason"`
	Ended      bool                `json:"ended"`
	Limit      int                 `json:"limit"`
	Before     string              `json:"before"`
}

// Workflow returns the callables workflow.*. The agent makes, sees and cancels
// workflows of its own conversation; an operator sees and cancels all.
func Workflow(places Places, flows Workflows, asker Asker) []toolserver.Callable {
	w := waiting{places, flows, asker}
	one := func(kind string) func(context.Context, toolserver.Caller, flowInput) (any, error) {
		return func(ctx context.Context, caller toolserver.Caller, in flowInput) (any, error) {
			in.Kind = kind
			in.Tasks = []taskInput{in.taskInput}
			return w.create(ctx, caller, in)
		}
	}
	return []toolserver.Callable{
		{
			ID: "workflow.send_and_wait", Summary: "Sends a message and wakes you when somebody replies to it", Changes: true, Repeatable: true,
			Description: "Only a reply to that message counts, of a person. If it cannot be sent, you are woken with the reason." + endYourTurn,
			Examples:    []string{`tools workflow.send_and_wait --session-id=#ops --text="@bob, when can we release?" --summary="Ann asked when we release; tell her what Bob says" --timeout=2d`},
			Schema: object(`"text","summary"`, sessionField+`,"text":{"type":"string","minLength":1,"maxLength":2000,"description":"What to send. @name mentions and notifies a person."},`+
				summaryField+","+describeField+","+userField+","+replyToField+","+timeoutField+","+mentionField+","+keyField),
			Run: flow(one("send_and_wait")),
		},
		{
			ID: "workflow.wait_for_reply", Summary: "Wakes you when somebody replies to a message", Changes: true, Repeatable: true,
			Description: "Replies that came before do not count. To ask something use workflow.send_and_wait, which misses none. On the page, where nobody replies to a message, leave out messageId: the next message of a person counts, and you are told of this workflow with it." + endYourTurn,
			Examples:    []string{`tools workflow.wait_for_reply --session-id=#ops --message-id=MESSAGE_ID --summary="Bob was asked for the date; tell Ann"`},
			Schema: object(`"summary"`, sessionField+`,"messageId":{"type":"string","maxLength":128,"description":"The message that is replied to."},`+
				summaryField+","+describeField+","+userField+","+timeoutField+","+mentionField+","+keyField),
			Run: flow(one("wait_for_reply")),
		},
		{
			ID: "workflow.schedule", Summary: "Wakes you by a calendar, again and again", Changes: true, Repeatable: true,
			Description: "It goes on until it is cancelled, or until a moment. A run that waits for its turn, because the conversation is busy, stands for those that come due meanwhile. For once use workflow.create with a task of the kind wait_until or delay; one of those after the other, with nobody asked, ends after eight.",
			Examples: []string{
				`tools workflow.schedule --cron="0 9 * * mon-fri" --timezone=Europe/Berlin --summary="Post the list of open reviews"`,
				`tools workflow.schedule --cron=@hourly --missed=skip --until=2026-12-01T00:00:00Z --summary="Look whether the site is up"`,
			},
			Schema: object(`"cron","summary"`, `"cron":{"type":"string","minLength":1,"maxLength":200,"description":"Minute, hour, day of the month, month, day of the week; or @hourly, @daily, @weekly, @monthly, @every 10m."},
"timezone":{"type":"string","description":"The clock that it follows, like Europe/Berlin; UTC when left out."},
"missed":{"type":"string","enum":["once","skip"],"default":"once","description":"What happens with runs that were missed while Lilac did not run: one of them is made up for, or none."},
"until":{"type":"string","description":"When it ends, like 2026-12-01T00:00:00Z."},`+summaryField+","+describeField+","+mentionField+","+keyField),
			Run: flow(one("schedule")),
		},
		{
			ID: "workflow.create", Summary: "Waits for one or several things, then wakes you", Changes: true, Repeatable: true,
			Description: "Each task has a kind, a description and what the kind takes. A task that runs out of time has a result, too." + endYourTurn,
			Examples: []string{
				`tools workflow.create --summary="Remind Ann of the meeting" --mention --tasks:json='[{"kind":"delay","description":"two hours","delay":"2h"}]'`,
				`tools workflow.create --summary="Tell when the build is done or it is late" --completion=any --tasks:json='[{"kind":"wait_for_event","description":"the build","types":["custom.build.done"]},{"kind":"wait_until","description":"six in the evening","at":"2026-11-22T18:00:00Z"}]'`,
			},
			Schema: object(`"summary","tasks"`, summaryField+`,"completion":{"type":"string","enum":["all","any"],"default":"all","description":"It is over when all tasks have a result, or any one."},
"tasks":{"type":"array","minItems":1,"maxItems":32,"description":"What is waited for.","items":`+object(`"kind","description"`, describeField+","+taskFields)+"},"+mentionField+","+keyField),
			Run: flow(w.create),
		},
		{
			ID: "workflow.task.create", Summary: "Gives a workflow that waits another task", Changes: true, Repeatable: true,
			Examples: []string{`tools workflow.task.create --workflow-id=WORKFLOW_ID --kind=delay --description="a day at most" --delay=1d`},
			Schema:   object(`"workflowId","kind","description"`, flowField+","+describeField+","+taskFields+","+keyField),
			Run:      flow(w.add),
		},
		{
			ID: "workflow.list", Summary: "Lists the workflows of this conversation, the newest first", Repeatable: true,
			Description: "Those that wait; with --ended also the others.",
			Examples:    []string{"tools workflow.list --output=json", "tools workflow.list --ended --limit=20"},
			Schema:      object("", `"ended":{"type":"boolean","description":"Also those that have ended."},"before":{"type":"string","maxLength":64,"description":"The id of a workflow; older ones are listed."},`+limitField),
			Run: flow(func(ctx context.Context, caller toolserver.Caller, in flowInput) (any, error) {
				found, err := flows.List(ctx, caller.SessionID, !in.Ended, in.Limit, in.Before)
				return append([]workflow.Workflow{}, found...), err
			}),
		},
		{
			ID: "workflow.get", Summary: "Shows a workflow with its tasks and their results", Repeatable: true,
			Examples: []string{"tools workflow.get --workflow-id=WORKFLOW_ID"},
			Schema:   object(`"workflowId"`, flowField),
			Run: flow(func(ctx context.Context, caller toolserver.Caller, in flowInput) (any, error) {
				return w.get(ctx, caller, in.WorkflowID)
			}),
		},
		{
			ID: "workflow.cancel", Summary: "Ends a workflow; nobody is woken", Changes: true, Repeatable: true,
			Examples: []string{`tools workflow.cancel --workflow-id=WORKFLOW_ID --reason="Bob has called"`},
			Schema:   object(`"workflowId"`, flowField+`,"reason":{"type":"string","maxLength":500,"description":"Why, for people who look at it."}`),
			Run: flow(func(ctx context.Context, caller toolserver.Caller, in flowInput) (any, error) {
				err := flows.Submit(ctx, workflow.Origin{}, visible(caller), event.WorkflowCancel{WorkflowID: in.WorkflowID, Reason: in.Reason})
				if err != nil {
					return nil, err
				}
				return w.get(ctx, caller, in.WorkflowID)
			}),
		},
	}
}

// flow reads the input.
func flow(run func(context.Context, toolserver.Caller, flowInput) (any, error)) func(context.Context, toolserver.Caller, json.RawMessage) (any, error) {
	return func(ctx context.Context, caller toolserver.Caller, raw json.RawMessage) (any, error) {
		in, err := decode[flowInput](raw)
		if err != nil {
			return nil, err
		}
		return run(ctx, caller, in)
	}
}

// visible says which workflows a caller may see: those that its own
// conversation made, for an operator all.
func visible(caller toolserver.Caller) func(workflow.Workflow) bool {
	return func(w workflow.Workflow) bool { return caller.May(w.Origin.SessionID) }
}

func (w waiting) get(ctx context.Context, caller toolserver.Caller, id string) (any, error) {
	found, err := w.flows.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	if !visible(caller)(found) {
		return nil, workflow.NotFound(id)
	}
	return found, nil
}

func (w waiting) create(ctx context.Context, caller toolserver.Caller, in flowInput) (any, error) {
	if caller.SessionID == "" {
		return nil, fault.New(fault.Denied, "A workflow wakes the agent in its conversation, and an operator's token has none. Ask the agent for it.")
	}
	if err := attended(caller); err != nil {
		return nil, err
	}
	d := workflow.Definition{Summary: in.Summary, Completion: in.Completion}
	if in.Mention {
		user, err := w.asker(ctx, caller.RequestID)
		if err != nil {
			return nil, fmt.Errorf("find who asks: %w", err)
		}
		d.Resume = &workflow.Target{Mention: user}
	}
	for i, t := range in.Tasks {
		if t.Description == "" {
			t.Description = text.TruncateRunes(in.Summary, maxDescription)
		}
		spec, err := w.spec(ctx, caller, t)
		if err != nil {
			return nil, err
		}
		spec.TaskID = fmt.Sprintf("t%d", i+1)
		d.Tasks = append(d.Tasks, spec)
	}
	definition, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("encode workflow: %w", err)
	}
	id := "w" + actID(caller.RequestID, in.Key, string(definition))
	from := workflow.Origin{RequestID: caller.RequestID, SessionID: caller.SessionID, Client: caller.Client}
	if err := w.flows.Submit(ctx, from, nil, event.WorkflowCreate{WorkflowID: id, Definition: definition}); err != nil {
		return nil, err
	}
	return w.get(ctx, caller, id)
}

// attended refuses a sub-agent: what woke it later would be read by nobody.
func attended(caller toolserver.Caller) error {
	if caller.Client == task.Client {
		return fault.New(fault.Denied, "A sub-agent waits for nothing: nobody reads what it says when it is woken. Say in your answer what is to be waited for; whoever started the task can do it.")
	}
	return nil
}

func (w waiting) add(ctx context.Context, caller toolserver.Caller, in flowInput) (any, error) {
	if err := attended(caller); err != nil {
		return nil, err
	}
	spec, err := w.spec(ctx, caller, in.taskInput)
	if err != nil {
		return nil, err
	}
	id := "t" + actID(caller.RequestID, in.Key, spec.Kind+string(spec.Input))
	var from workflow.Origin
	if caller.RequestID != "" { // an operator has none
		from = workflow.Origin{RequestID: caller.RequestID, SessionID: caller.SessionID, Client: caller.Client}
	}
	err = w.flows.Submit(ctx, from, visible(caller), event.WorkflowTaskCreate{
		WorkflowID: in.WorkflowID, TaskID: id, Kind: spec.Kind, Description: spec.Description, Input: spec.Input,
	})
	if err != nil {
		return nil, err
	}
	return w.get(ctx, caller, in.WorkflowID)
}

// actID names an act of a request: the same one again has the same name.
func actID(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return strings.ToLower(base32.HexEncoding.EncodeToString(sum[:])[:15])
}

// spec makes a task of what a caller asks for: names become ids, and words for
// times become numbers. Summary and description stay as they are written.
func (w waiting) spec(ctx context.Context, caller toolserver.Caller, in taskInput) (s workflow.Spec, err error) {
	s = workflow.Spec{Kind: in.Kind, Description: in.Description}
	out := workflow.TaskInput{Cron: in.Cron, Timezone: in.Timezone, Missed: in.Missed, Types: in.Types, If: in.If}
	for _, read := range []func() error{
		func() (err error) { out.TimeoutMS, err = span("timeout", in.Timeout); return err },
		func() (err error) { out.DelayMS, err = span("delay", in.Delay); return err },
		func() (err error) { out.At, err = instant("at", in.At); return err },
		func() (err error) { out.Until, err = instant("until", in.Until); return err },
	} {
		if err := read(); err != nil {
			return s, err
		}
	}
	switch in.Kind {
	case "wait_for_reply", "send_and_wait":
		if s.Kind, err = w.conversation(ctx, caller, in, &out); err != nil {
			return s, err
		}
	case workflow.KindEvent:
		// Events of other conversations are not this one's to read.
		out.SessionID = caller.SessionID
	}
	if s.Input, err = json.Marshal(out); err != nil {
		return s, fmt.Errorf("encode task: %w", err)
	}
	return s, nil
}

// conversation fills in where a reply is waited for, if the caller may do that
// there, and returns the kind with its surface.
func (w waiting) conversation(ctx context.Context, caller toolserver.Caller, in taskInput, out *workflow.TaskInput) (kind string, err error) {
	place, id, err := w.places.Find(ctx, caller, in.SessionID)
	if err != nil {
		return "", err
	}
	kind = place.Client() + "." + in.Kind
	out.SessionID, out.MessageID, out.Text, out.ReplyTo = id, in.MessageID, in.Text, in.ReplyToMessageID
	if out.UserID, err = person(ctx, place, caller, id, in.UserID); err != nil {
		return "", err
	}
	switch {
	case in.Kind == "send_and_wait":
		_, err = place.Prepare(ctx, caller, Outgoing{SessionID: id, Text: in.Text, ReplyTo: in.ReplyToMessageID})
	case in.MessageID != "":
		_, err = place.Message(ctx, caller, event.MessageRef{Platform: place.Client(), ChannelID: id, MessageID: in.MessageID})
	case !caller.May(id):
		err = private(caller, id)
	}
	return kind, err
}

// person resolves a form in which somebody may be named.
func person(ctx context.Context, place Place, caller toolserver.Caller, sessionID, form string) (string, error) {
	if !strings.HasPrefix(form, "@") {
		return strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(form, "<@"), "!"), ">"), nil
	}
	named, err := place.Prepare(ctx, caller, Outgoing{SessionID: sessionID, Text: form})
	if err != nil {
		return "", err
	}
	if len(named.PingUsers) != 1 {
		return "", fault.New(fault.NotFound, "Nobody is known as %s here.", form)
	}
	return named.PingUsers[0], nil
}

// span reads how long something takes, in milliseconds; "" is zero.
func span(field, text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	d, err := schedule.ParseDuration(text)
	if err != nil {
		return 0, fault.InvalidField(field, "%s", fault.ToWire(err).Message)
	}
	return d.Milliseconds(), nil
}

// instant reads a moment, as Unix milliseconds.
func instant(field, text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return 0, fault.InvalidField(field, "%q is not a moment; write it with its zone, like 2026-11-22T09:00:00+01:00 or 2026-11-22T08:00:00Z.", text)
	}
	return t.UnixMilli(), nil
}
