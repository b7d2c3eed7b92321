package app

import (
	"context"
	"io"
	"path/filepath"

	"lilac/internal/agent/builtin"
	"lilac/internal/agent/tool"
	"lilac/internal/core/environment"
	"lilac/internal/core/task"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/serve/callables"
	"lilac/internal/serve/toolserver"
	"lilac/internal/store"
)

// tasksDir is the subdirectory of the data directory with the outputs of background tasks.
const tasksDir = "tasks"

// openTasks creates the service for background tasks with the options of the tools.
func (b toolBuilder) openTasks(opts builtin.Options) (*task.Service, error) {
	opts.Access = taskAccess(b)
	if b.remote != nil {
		opts.Nodes = b.remote.WithToken(func(call tool.Call) (string, func(), error) { return b.callables.server.Mint(taskGrant(call)) })
	}
	shell, err := builtin.NewShell(opts)
	if err != nil {
		return nil, err
	}
	return task.New(task.Options{
		DB: b.db, Store: b.Seams.Tasks.around(store.Tasks{}), Requests: taskRequests{}, Publish: b.Seams.taskEnds(b.db, b.publish), Commands: taskCommands{workspaces(b), shell}, CheckAgent: b.checkAgent,
		Dir: filepath.Join(b.Config.DataDir, tasksDir), Limits: b.taskLimits, MaxDepth: event.MaxDepth, Logger: b.Logger,
	}), nil
}

// taskRequests reads the requests of sub-agents.
type taskRequests struct {
	store.History
	store.Journal
	store.RuleRuns
}

// publish publishes an environment event of Lilac itself.
func (b toolBuilder) publish(tx *db.Tx, e event.EnvEvent) error {
	_, err := environment.Publish(tx, b.store.Inbox, e)
	return err
}

// taskCommands runs the commands of tasks in the same way as the bash tool.
type taskCommands struct {
	workspaces workspaces
	shell      *builtin.Shell
}

func (c taskCommands) Check(ctx context.Context, o task.Spec) error {
	workspace, err := c.workspaces.ofTask(ctx, o.RequestID, o.SessionID)
	if err != nil {
		return err
	}
	_, err = c.shell.Check(workspace, builtin.Line{Command: o.Command, Dir: o.Dir})
	return err
}

func (c taskCommands) Run(ctx context.Context, t task.Task, out io.Writer) (task.Exit, error) {
	workspace, err := c.workspaces.ofTask(ctx, t.RequestID, t.SessionID)
	if err != nil {
		return task.Exit{}, err
	}
	call := tool.Call{ID: t.ID, RequestID: t.RequestID, SessionID: t.SessionID, Client: t.Client, Grant: t.Grant, Workspace: workspace}
	ended, err := c.shell.Run(ctx, call, builtin.Line{Command: t.Command, Dir: t.Dir, Output: out})
	return task.Exit{Code: ended.ExitCode, Exceeded: ended.Killed()}, err
}

// taskAccess gives the command of a task its own read-only token, which is valid as long as the
// task. A task outlives its request.
type taskAccess struct{ *base }

var _ builtin.Access = taskAccess{}

func (a taskAccess) Open(call tool.Call) (builtin.Pass, error) {
	return a.callables.mint(taskGrant(call))
}

func taskGrant(call tool.Call) toolserver.Grant {
	g := grantOf(call)
	g.TaskID, g.ReadOnly = call.ID, true
	return g
}

// backgroundTasks gives callables access to the tasks. It looks them up at each call, because
// the callables are created first: commands of tasks need tokens of the tool server.
type backgroundTasks struct{ *base }

var _ callables.Tasks = backgroundTasks{}

func (b backgroundTasks) Start(ctx context.Context, o task.Spec) (task.Task, bool, error) {
	return b.tasks.Start(ctx, o)
}

func (b backgroundTasks) Tasks(ctx context.Context, sessionID string, limit int, before string) ([]task.Task, error) {
	return b.tasks.Tasks(ctx, sessionID, limit, before)
}

func (b backgroundTasks) Task(ctx context.Context, id string) (task.Task, error) {
	return b.tasks.Task(ctx, id)
}

func (b backgroundTasks) Output(ctx context.Context, t task.Task, offset int64, limit int) (task.OutputPart, error) {
	return b.tasks.Output(ctx, t, offset, limit)
}

func (b backgroundTasks) Stop(ctx context.Context, id string, by task.Actor) (task.Task, error) {
	return b.tasks.Stop(ctx, id, by)
}
