package callables

import (
	"context"
	"encoding/json"
	"time"

	"lilac/internal/core/task"
	"lilac/internal/foundation/fault"
	"lilac/internal/serve/toolserver"
)

// Tasks is what runs in the background; see [task.Service].
type Tasks interface {
	Start(ctx context.Context, o task.Spec) (t task.Task, fresh bool, err error)
	Tasks(ctx context.Context, sessionID string, limit int, before string) ([]task.Task, error)
	Task(ctx context.Context, id string) (task.Task, error)
	Output(ctx context.Context, t task.Task, offset int64, limit int) (task.OutputPart, error)
	Stop(ctx context.Context, id string, by task.Actor) (task.Task, error)
}

const (
	// endTail is how much of the end of an output is answered to who names no
	// offset, and how much at most.
	endTail = 64 << 10
	// stopPatience is longer than a task needs to end.
	stopPatience = 20 * time.Second
)

type backgroundInput struct {
	ID          string `json:"id"`
	Command     string `json:"command"`
	Dir         string `json:"dir"`
	Prompt      string `json:"prompt"`
	Description string `json:"description"`
	Timeout     int    `json:"timeout"`
	Offset      *int64 `json:"offset"`
	Limit       int    `json:"limit"`
	Before      string `json:"before"`
}

const backgroundField = `"id":{"type":"string","minLength":1,"maxLength":64,"description":"The task."}`

// Background returns the callables task.*: what the tool task does, for
// commands. A caller sees the tasks of its own session, an operator each.
func Background(tasks Tasks) []toolserver.Callable {
	b := background{tasks}
	return []toolserver.Callable{
		{
			ID: "task.start", Summary: "Starts a command, or a sub-agent, in the background", Changes: true,
			Description: "It returns at once. When the task has ended you are told in the conversation, with the end of its output or the sub-agent's answer.",
			Examples:    []string{`tools task.start --command="make test" --description="all tests"`, `tools task.start --prompt=@what-to-do.md`},
			Schema: object("", `"command":{"type":"string","maxLength":100000,"description":"The bash command to run."},
"dir":{"type":"string","description":"The directory in the workspace where the command starts."},
"prompt":{"type":"string","maxLength":100000,"description":"Instead of a command: what a sub-agent is to do, and what to answer."},
"description":{"type":"string","maxLength":200,"description":"A few words that say what it is, for people."},
"timeout":{"type":"integer","minimum":1,"description":"Seconds after which it is stopped; an hour when left out."}`),
			Run: withTask(b.start),
		},
		{
			ID: "task.list", Summary: "Lists the background tasks of this conversation, the newest first", Repeatable: true,
			Examples: []string{"tools task.list", "tools task.list --limit=5 --output=json"},
			Schema: object("", `"limit":{"type":"integer","minimum":1,"maximum":200,"default":30,"description":"How many at most."},
"before":{"type":"string","maxLength":64,"description":"The id of a task; older ones are listed."}`),
			Run: withTask(b.list),
		},
		{
			ID: "task.output", Summary: "Shows what a background task has put out", Repeatable: true,
			Description: "It may be read while the task runs. Without an offset it is the end of the output; next in the answer says where to go on.",
			Examples:    []string{"tools task.output --id=01k2…", "tools task.output --id=01k2… --offset=0 --output=json"},
			Schema:      object(`"id"`, backgroundField+`,"offset":{"type":"integer","minimum":0,"description":"The first byte to show."}`),
			Run:         withTask(b.output),
		},
		{
			ID: "task.stop", Summary: "Stops a background task with everything it started", Changes: true, Repeatable: true, Time: stopPatience,
			Examples: []string{"tools task.stop --id=01k2…"},
			Schema:   object(`"id"`, backgroundField),
			Run:      withTask(b.stop),
		},
	}
}

type background struct{ tasks Tasks }

func withTask(run func(ctx context.Context, caller toolserver.Caller, in backgroundInput) (any, error)) func(context.Context, toolserver.Caller, json.RawMessage) (any, error) {
	return func(ctx context.Context, caller toolserver.Caller, raw json.RawMessage) (any, error) {
		in, err := decode[backgroundInput](raw)
		if err != nil {
			return nil, err
		}
		return run(ctx, caller, in)
	}
}

func (b background) start(ctx context.Context, caller toolserver.Caller, in backgroundInput) (any, error) {
	if caller.RequestID == "" {
		return nil, fault.New(fault.Denied, "A background task belongs to a request of a conversation, which this token has none of.")
	}
	t, _, err := b.tasks.Start(ctx, task.Spec{
		SessionID: caller.SessionID, RequestID: caller.RequestID, Client: caller.Client, Description: in.Description,
		Command: in.Command, Dir: in.Dir, Prompt: in.Prompt, Time: time.Duration(in.Timeout) * time.Second,
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}

func (b background) list(ctx context.Context, caller toolserver.Caller, in backgroundInput) (any, error) {
	if caller.SessionID == "" && caller.Operator == "" {
		return nil, fault.New(fault.Denied, "This token belongs to no conversation.")
	}
	tasks, err := b.tasks.Tasks(ctx, caller.SessionID, in.Limit, in.Before)
	if err != nil {
		return nil, err
	}
	return append([]task.Task{}, tasks...), nil
}

// find returns a task that the caller may see.
func (b background) find(ctx context.Context, caller toolserver.Caller, id string) (task.Task, error) {
	t, err := b.tasks.Task(ctx, id)
	if err == nil && !caller.May(t.SessionID) {
		return task.Task{}, fault.New(fault.NotFound, "There is no background task %q in this conversation.", id)
	}
	return t, err
}

func (b background) output(ctx context.Context, caller toolserver.Caller, in backgroundInput) (any, error) {
	t, err := b.find(ctx, caller, in.ID)
	if err != nil {
		return nil, err
	}
	offset := int64(-endTail)
	if in.Offset != nil {
		offset = *in.Offset
	}
	return b.tasks.Output(ctx, t, offset, endTail)
}

func (b background) stop(ctx context.Context, caller toolserver.Caller, in backgroundInput) (any, error) {
	if _, err := b.find(ctx, caller, in.ID); err != nil {
		return nil, err
	}
	by := task.ByAgent
	if caller.Operator != "" {
		by = task.ByPerson
	}
	return b.tasks.Stop(ctx, in.ID, by)
}
