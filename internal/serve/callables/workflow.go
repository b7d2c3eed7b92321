package callables

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"fmt"
	"strings"

	"lilac/internal/core/task"
	"lilac/internal/core/workflow"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/text"
	"lilac/internal/serve/toolserver"
)

// Workflows stores workflows; see [workflow.Service].
type Workflows interface {
	Submit(ctx context.Context, from workflow.Origin, visible func(workflow.Workflow) bool, payloads ...event.Payload) error
	Get(ctx context.Context, id string) (workflow.Workflow, error)
	List(ctx context.Context, sessionID string, waiting bool, limit int, before string) ([]workflow.Workflow, error)
}

// Asker returns the person whose message a request answers, as the platform's
// id, or "".
type Asker func(ctx context.Context, requestID string) (userID string, err error)

// workflows implements the callables workflow.*.
type workflows struct {
	surfaces Surfaces
	flows    Workflows
	asker    Asker
}

// maxDescription bounds a description that is made from a summary, in characters.
const maxDescription = 200

// returnsAtOnce ends the help of the callables that start a workflow.
const returnsAtOnce = "\nIt returns at once. Say what you wait for and end your answer: when the wait is over, you are woken in this conversation. The same call is made once in a request: give another --key to make it again."

// Fields that several inputs have.
type (
	wakeFields struct {
		Summary string `json:"summary" min:"1" max:"2000" jsonschema:"What it is for. You read it when you are woken, maybe days later: write what was asked, by whom, and what to do then."`
		Mention bool   `json:"mention,omitempty" jsonschema:"Begin the answer with a mention of the person who asks you now."`
		Key     string `json:"key,omitempty" max:"128" jsonschema:"Tells this call from another one of the same request that says the same."`
	}
	descriptionField struct {
		Description string `json:"description,omitempty" max:"1000" jsonschema:"What is waited for, in words for a person; the summary when left out."`
	}
	replyFields struct {
		inSession
		UserID  string `json:"userId,omitempty" max:"128" jsonschema:"Only a reply of this person counts: an id, <@id> or @name."`
		Timeout string `json:"timeout,omitempty" jsonschema:"How long to wait at most, like 90m, 36h or 3d; 30d when left out. You are woken then, too."`
	}
	scheduleFields struct {
		Cron     string `json:"cron" min:"1" max:"200" jsonschema:"Minute, hour, day of the month, month, day of the week; or @hourly, @daily, @weekly, @monthly, @every 10m."`
		Timezone string `json:"timezone,omitempty" jsonschema:"The clock that it follows, like Europe/Berlin; UTC when left out."`
		Missed   string `json:"missed,omitempty" enum:"once,skip" default:"once" jsonschema:"What happens with runs that were missed while Lilac did not run: one of them is made up for, or none."`
		Until    string `json:"until,omitempty" jsonschema:"When it ends, like 2026-12-01T00:00:00Z."`
	}
	workflowField struct {
		WorkflowID string `json:"workflowId" min:"1" max:"64" jsonschema:"The workflow."`
	}
)

type (
	sendAndWaitInput struct {
		wakeFields
		descriptionField
		replyFields
		Text             string `json:"text" min:"1" max:"2000" jsonschema:"What to send. @name mentions and notifies a person."`
		ReplyToMessageID string `json:"replyToMessageId,omitempty" max:"128" jsonschema:"A message of the conversation that it replies to."`
	}
	waitForReplyInput struct {
		wakeFields
		descriptionField
		replyFields
		MessageID string `json:"messageId,omitempty" max:"128" jsonschema:"The message that is replied to."`
	}
	scheduleInput struct {
		wakeFields
		descriptionField
		scheduleFields
	}
	createWorkflowInput struct {
		wakeFields
		Completion workflow.Completion `json:"completion,omitempty" enum:"all,any" default:"all" jsonschema:"It is over when all tasks have a result, or any one."`
		Tasks      []waitInput         `json:"tasks" min:"1" max:"32" jsonschema:"What is waited for."`
	}
	addTaskInput struct {
		workflowField
		waitInput
		Key string `json:"key,omitempty" max:"128" jsonschema:"Tells this call from another one of the same request that says the same."`
	}
	listWorkflowsInput struct {
		Ended  bool   `json:"ended,omitempty" jsonschema:"Also those that have ended."`
		Before string `json:"before,omitempty" max:"64" jsonschema:"The id of a workflow; older ones are listed."`
		limited
	}
	cancelWorkflowInput struct {
		workflowField
		Reason string `json:"reason,omitempty" max:"500" jsonschema:"Why, for people who look at it."`
	}
)

// Workflow returns the callables workflow.*. The agent creates, sees and cancels
// workflows of its own conversation; an operator sees and cancels all of them.
func Workflow(surfaces Surfaces, flows Workflows, asker Asker) []toolserver.Callable {
	w := workflows{surfaces, flows, asker}
	return []toolserver.Callable{
		toolserver.NewCallable(toolserver.Callable{
			ID: "workflow.send_and_wait", Summary: "Sends a message and wakes you when somebody replies to it", Changes: true, Repeatable: true,
			Description: "Only a person's reply to that message counts. If the message cannot be sent, you are woken with the reason." + returnsAtOnce,
			Examples:    []string{`tools workflow.send_and_wait --session-id=#ops --text="@bob, when can we release?" --summary="Ann asked when we release; tell her what Bob says" --timeout=2d`},
		}, func(ctx context.Context, caller toolserver.Caller, in sendAndWaitInput) (any, error) {
			return w.create(ctx, caller, in.wakeFields, "", wait{waitInput: waitInput{
				Kind: kindSendAndWait, Description: in.Description, replyFields: in.replyFields, Text: in.Text, ReplyToMessageID: in.ReplyToMessageID,
			}})
		}),
		toolserver.NewCallable(toolserver.Callable{
			ID: "workflow.wait_for_reply", Summary: "Wakes you when somebody replies to a message", Changes: true, Repeatable: true,
			Description: "Earlier replies do not count. To ask a question, use workflow.send_and_wait, which misses no reply. On the page, where nobody can reply to a message, leave out messageId: the next message of a person counts, and it comes with a note about this workflow." + returnsAtOnce,
			Examples:    []string{`tools workflow.wait_for_reply --session-id=#ops --message-id=MESSAGE_ID --summary="Bob was asked for the date; tell Ann"`},
		}, func(ctx context.Context, caller toolserver.Caller, in waitForReplyInput) (any, error) {
			return w.create(ctx, caller, in.wakeFields, "", wait{waitInput: waitInput{
				Kind: kindWaitForReply, Description: in.Description, replyFields: in.replyFields, MessageID: in.MessageID,
			}})
		}),
		toolserver.NewCallable(toolserver.Callable{
			ID: "workflow.schedule", Summary: "Wakes you on a schedule, again and again", Changes: true, Repeatable: true,
			Description: "It repeats until it is cancelled, or until the given time. While a run waits because the conversation is busy, runs that come due are merged into it. For a single run, use workflow.create with a task of the kind wait_until or delay; a chain of those ends after eight unless a person asks again.",
			Examples: []string{
				`tools workflow.schedule --cron="0 9 * * mon-fri" --timezone=Europe/Berlin --summary="Post the list of open reviews"`,
				`tools workflow.schedule --cron=@hourly --missed=skip --until=2026-12-01T00:00:00Z --summary="Look whether the site is up"`,
			},
		}, func(ctx context.Context, caller toolserver.Caller, in scheduleInput) (any, error) {
			return w.create(ctx, caller, in.wakeFields, "", wait{waitInput: waitInput{Kind: workflow.KindSchedule, Description: in.Description}, scheduleFields: in.scheduleFields})
		}),
		toolserver.NewCallable(toolserver.Callable{
			ID: "workflow.create", Summary: "Waits for one or several things, then wakes you", Changes: true, Repeatable: true,
			Description: "Each task has a kind, a description and the fields of its kind. A task that times out also has a result." + returnsAtOnce,
			Examples: []string{
				`tools workflow.create --summary="Remind Ann of the meeting" --mention --tasks:json='[{"kind":"delay","description":"two hours","delay":"2h"}]'`,
				`tools workflow.create --summary="Tell when the build is done or it is late" --completion=any --tasks:json='[{"kind":"wait_for_event","description":"the build","types":["custom.build.done"]},{"kind":"wait_until","description":"six in the evening","at":"2026-11-22T18:00:00Z"}]'`,
			},
		}, func(ctx context.Context, caller toolserver.Caller, in createWorkflowInput) (any, error) {
			waits := make([]wait, len(in.Tasks))
			for i, t := range in.Tasks {
				waits[i].waitInput = t
			}
			return w.create(ctx, caller, in.wakeFields, in.Completion, waits...)
		}),
		toolserver.NewCallable(toolserver.Callable{
			ID: "workflow.task.create", Summary: "Adds a task to a workflow that is waiting", Changes: true, Repeatable: true,
			Examples: []string{`tools workflow.task.create --workflow-id=WORKFLOW_ID --kind=delay --description="a day at most" --delay=1d`},
		}, w.add),
		toolserver.NewCallable(toolserver.Callable{
			ID: "workflow.list", Summary: "Lists the workflows of this conversation, newest first", Repeatable: true,
			Description: "Those that are waiting; with --ended, also those that have ended.",
			Examples:    []string{"tools workflow.list --output=json", "tools workflow.list --ended --limit=20"},
		}, func(ctx context.Context, caller toolserver.Caller, in listWorkflowsInput) (any, error) {
			found, err := flows.List(ctx, caller.SessionID, !in.Ended, in.Limit, in.Before)
			return append([]workflow.Workflow{}, found...), err
		}),
		toolserver.NewCallable(toolserver.Callable{
			ID: "workflow.get", Summary: "Shows a workflow with its tasks and their results", Repeatable: true,
			Examples: []string{"tools workflow.get --workflow-id=WORKFLOW_ID"},
		}, func(ctx context.Context, caller toolserver.Caller, in workflowField) (any, error) {
			return w.get(ctx, caller, in.WorkflowID)
		}),
		toolserver.NewCallable(toolserver.Callable{
			ID: "workflow.cancel", Summary: "Ends a workflow without waking you", Changes: true, Repeatable: true,
			Examples: []string{`tools workflow.cancel --workflow-id=WORKFLOW_ID --reason="Bob has called"`},
		}, func(ctx context.Context, caller toolserver.Caller, in cancelWorkflowInput) (any, error) {
			err := flows.Submit(ctx, workflow.Origin{}, visible(caller), event.WorkflowCancel{WorkflowID: in.WorkflowID, Reason: in.Reason})
			if err != nil {
				return nil, err
			}
			return w.get(ctx, caller, in.WorkflowID)
		}),
	}
}

// visible returns a function that reports whether a caller may see a workflow: one
// that its own conversation created; for an operator, any.
func visible(caller toolserver.Caller) func(workflow.Workflow) bool {
	return func(w workflow.Workflow) bool { return caller.May(w.Origin.SessionID) }
}

func (w workflows) get(ctx context.Context, caller toolserver.Caller, id string) (any, error) {
	found, err := w.flows.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	if !visible(caller)(found) {
		return nil, workflow.NotFound(id)
	}
	return found, nil
}

// create submits a workflow that wakes the agent when its waits are over.
func (w workflows) create(ctx context.Context, caller toolserver.Caller, in wakeFields, completion workflow.Completion, waits ...wait) (any, error) {
	if caller.SessionID == "" {
		return nil, fault.New(fault.Denied, "A workflow wakes the agent in its conversation, and an operator's token has none. Ask the agent to create it.")
	}
	if err := refuseSubAgent(caller); err != nil {
		return nil, err
	}
	d := workflow.Definition{Summary: in.Summary, Completion: completion}
	if in.Mention {
		user, err := w.asker(ctx, caller.RequestID)
		if err != nil {
			return nil, fmt.Errorf("find the person who asks: %w", err)
		}
		d.Resume = &workflow.Target{Mention: user}
	}
	for i, one := range waits {
		if one.Description == "" {
			one.Description = text.TruncateRunes(in.Summary, maxDescription)
		}
		spec, err := w.spec(ctx, caller, one)
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
	id := "w" + contentID(caller.RequestID, in.Key, string(definition))
	if err := w.flows.Submit(ctx, origin(caller), nil, event.WorkflowCreate{WorkflowID: id, Definition: definition}); err != nil {
		return nil, err
	}
	return w.get(ctx, caller, id)
}

// add submits another task of a workflow.
func (w workflows) add(ctx context.Context, caller toolserver.Caller, in addTaskInput) (any, error) {
	if err := refuseSubAgent(caller); err != nil {
		return nil, err
	}
	spec, err := w.spec(ctx, caller, wait{waitInput: in.waitInput})
	if err != nil {
		return nil, err
	}
	id := "t" + contentID(caller.RequestID, in.Key, spec.Kind+string(spec.Input))
	err = w.flows.Submit(ctx, origin(caller), visible(caller), event.WorkflowTaskCreate{
		WorkflowID: in.WorkflowID, TaskID: id, Kind: spec.Kind, Description: spec.Description, Input: spec.Input,
	})
	if err != nil {
		return nil, err
	}
	return w.get(ctx, caller, in.WorkflowID)
}

// origin returns where a workflow comes from. An operator's has no origin.
func origin(caller toolserver.Caller) workflow.Origin {
	if caller.RequestID == "" {
		return workflow.Origin{}
	}
	return workflow.Origin{RequestID: caller.RequestID, SessionID: caller.SessionID, Client: caller.Client}
}

// refuseSubAgent refuses a sub-agent: nobody would read what it writes when it is
// woken later.
func refuseSubAgent(caller toolserver.Caller) error {
	if caller.Client == task.Client {
		return fault.New(fault.Denied, "A sub-agent cannot wait: nobody reads what it writes when it is woken. Write in your answer what to wait for; the agent that started the task can do it.")
	}
	return nil
}

// contentID returns an id that is the same for the same parts, so that a repeated
// call of a request creates nothing twice.
func contentID(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return strings.ToLower(base32.HexEncoding.EncodeToString(sum[:])[:15])
}
