package callables

import (
	"context"
	"time"

	"lilac/internal/core/task"
	"lilac/internal/foundation/fault"
	"lilac/internal/serve/toolserver"
)

// Tasks starts, shows and stops background tasks; see [task.Service].
type Tasks interface {
	Start(ctx context.Context, o task.Spec) (t task.Task, fresh bool, err error)
	Tasks(ctx context.Context, sessionID string, limit int, before string) ([]task.Task, error)
	Task(ctx context.Context, id string) (task.Task, error)
	Output(ctx context.Context, t task.Task, offset int64, limit int) (task.OutputPart, error)
	Stop(ctx context.Context, id string, by task.Actor) (task.Task, error)
}

const (
	// maxOutput bounds the part of an output that one call returns, in bytes.
	maxOutput = 64 << 10
	// stopTime limits task.stop. A task needs less to end.
	stopTime = 20 * time.Second
)

type (
	startTaskInput struct {
		Command     string `json:"command,omitempty" max:"100000" jsonschema:"The bash command to run."`
		Dir         string `json:"dir,omitempty" jsonschema:"The directory in the workspace where the command starts."`
		Prompt      string `json:"prompt,omitempty" max:"100000" jsonschema:"Instead of a command: what a sub-agent is to do, and what to answer."`
		Agent       string `json:"agent,omitempty" max:"40" jsonschema:"With a prompt: the name of an agent for such work. Default: a sub-agent like you."`
		Description string `json:"description,omitempty" max:"200" jsonschema:"A few words that say what it is, for people."`
		Timeout     int    `json:"timeout,omitempty" min:"1" jsonschema:"Seconds after which it is stopped; an hour when left out."`
	}
	listTasksInput struct {
		Limit  int    `json:"limit,omitempty" min:"1" max:"200" default:"30" jsonschema:"How many at most."`
		Before string `json:"before,omitempty" max:"64" jsonschema:"The id of a task; older ones are listed."`
	}
	taskInput struct {
		ID string `json:"id" min:"1" max:"64" jsonschema:"The task."`
	}
	taskOutputInput struct {
		taskInput
		Offset *int64 `json:"offset,omitempty" min:"0" jsonschema:"The first byte to show."`
	}
)

// Background returns the callables task.*, which do the same as the tool task. A
// caller sees the tasks of its own session, an operator all of them.
func Background(tasks Tasks) []toolserver.Callable {
	b := background{tasks}
	return []toolserver.Callable{
		toolserver.NewCallable(toolserver.Callable{
			ID: "task.start", Summary: "Starts a command, or a sub-agent, in the background", Changes: true,
			Description: "It returns at once. When the task has ended, a message in the conversation tells you, with the end of its output or the sub-agent's answer.",
			Examples:    []string{`tools task.start --command="make test" --description="all tests"`, `tools task.start --prompt=@what-to-do.md`},
		}, b.start),
		toolserver.NewCallable(toolserver.Callable{
			ID: "task.list", Summary: "Lists the background tasks of this conversation, newest first", Repeatable: true,
			Examples: []string{"tools task.list", "tools task.list --limit=5 --output=json"},
		}, b.list),
		toolserver.NewCallable(toolserver.Callable{
			ID: "task.output", Summary: "Shows the output of a background task", Repeatable: true,
			Description: "You can read it while the task runs. Without an offset, it is the end of the output; next in the answer is the offset to continue at.",
			Examples:    []string{"tools task.output --id=01k2…", "tools task.output --id=01k2… --offset=0 --output=json"},
		}, b.output),
		toolserver.NewCallable(toolserver.Callable{
			ID: "task.stop", Summary: "Stops a background task and everything it started", Changes: true, Repeatable: true, Time: stopTime,
			Examples: []string{"tools task.stop --id=01k2…"},
		}, b.stop),
	}
}

type background struct{ tasks Tasks }

func (b background) start(ctx context.Context, caller toolserver.Caller, in startTaskInput) (any, error) {
	if caller.RequestID == "" {
		return nil, fault.New(fault.Denied, "A background task belongs to a request of a conversation, which this token has none of.")
	}
	t, _, err := b.tasks.Start(ctx, task.Spec{
		SessionID: caller.SessionID, RequestID: caller.RequestID, Client: caller.Client, Description: in.Description,
		Command: in.Command, Dir: in.Dir, Prompt: in.Prompt, Agent: in.Agent, Time: time.Duration(in.Timeout) * time.Second, Grant: caller.Tools,
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}

func (b background) list(ctx context.Context, caller toolserver.Caller, in listTasksInput) (any, error) {
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

func (b background) output(ctx context.Context, caller toolserver.Caller, in taskOutputInput) (any, error) {
	t, err := b.find(ctx, caller, in.ID)
	if err != nil {
		return nil, err
	}
	offset := int64(-maxOutput)
	if in.Offset != nil {
		offset = *in.Offset
	}
	return b.tasks.Output(ctx, t, offset, maxOutput)
}

func (b background) stop(ctx context.Context, caller toolserver.Caller, in taskInput) (any, error) {
	if _, err := b.find(ctx, caller, in.ID); err != nil {
		return nil, err
	}
	by := task.ByAgent
	if caller.Operator != "" {
		by = task.ByPerson
	}
	return b.tasks.Stop(ctx, in.ID, by)
}
