package task

import (
	"context"
	"crypto/sha256"
	_ "embed" // for the text of the tool
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"lilac/internal/agent/tool"
	"lilac/internal/foundation/fault"
)

//go:embed tool.md
var toolText string

// ToolName is the tool with which the agent works with tasks.
const ToolName = "task"

const (
	// maxPrompt bounds what a sub-agent is given, in bytes.
	maxPrompt = 100_000
	// maxShownBytes is how much of an output one call shows.
	maxShownBytes = 16 << 10
	// maxShownTasks is how many tasks one call lists.
	maxShownTasks = 30
)

// Tool returns the tool task. Its calls may be repeated: a start is for the
// call that asked.
func Tool(s *Service) tool.Tool { return &taskTool{s} }

type taskTool struct{ s *Service }

var _ tool.Displayer = (*taskTool)(nil)

func (t *taskTool) Spec() tool.Spec {
	return tool.Spec{
		Name: ToolName, Description: toolText, Idempotent: true,
		Schema: json.RawMessage(`{"type":"object","properties":{
"action":{"type":"string","enum":["start","list","output","stop"],"description":"What to do."},
"command":{"type":"string","description":"For start: the bash command to run."},
"dir":{"type":"string","description":"For start with a command: the directory in the workspace where it starts."},
"prompt":{"type":"string","description":"For start, instead of a command: what a sub-agent is to do, and what to answer."},
"description":{"type":"string","description":"For start: a few words that say what it is, for people."},
"timeout":{"type":"integer","minimum":1,"description":"For start: seconds after which it is stopped; an hour when left out."},
"id":{"type":"string","description":"For output and stop: the id of the task."},
"offset":{"type":"integer","minimum":0,"description":"For output: the first byte to show; the end of the output when left out."}},
"required":["action"]}`),
	}
}

// Display says in one line what a call will do.
func (t *taskTool) Display(input json.RawMessage) string {
	in := tool.ParseInput(input)
	what := in.TextOr("description", "")
	for _, field := range []string{"command", "prompt", "id"} {
		if what == "" {
			what = in.TextOr(field, "")
		}
	}
	return tool.Line(ToolName+" "+in.TextOr("action", "")+": "+what, 100)
}

func (t *taskTool) Run(ctx context.Context, call tool.Call) (tool.Result, error) {
	if ctx.Err() != nil {
		return tool.Result{}, context.Cause(ctx)
	}
	text, err := t.run(ctx, call, tool.ParseInput(call.Input))
	result := tool.Result{Text: text}
	if err != nil {
		if ctx.Err() != nil {
			return tool.Result{}, context.Cause(ctx)
		}
		var f *fault.Error
		if !errors.As(err, &f) {
			return tool.Result{}, err
		}
		result = tool.Failed(errors.New(f.Message))
	}
	result.Display = t.Display(call.Input)
	return result, nil
}

func (t *taskTool) run(ctx context.Context, call tool.Call, in *tool.Input) (string, error) {
	action := in.Need("action")
	if err := in.Err(); err != nil {
		return "", err
	}
	switch action {
	case "start":
		return t.start(ctx, call, in)
	case "list":
		return t.list(ctx, call.SessionID)
	case "output", "stop":
		id, offset := in.Need("id"), -maxShownBytes
		if in.Has("offset") {
			offset = in.Int("offset", 0, 0, 1<<50)
		}
		if err := in.Err(); err != nil {
			return "", err
		}
		if action == "stop" {
			return t.stop(ctx, call.SessionID, id)
		}
		return t.output(ctx, call.SessionID, id, int64(offset))
	}
	return "", fault.InvalidField("action", "\"action\" must be start, list, output or stop, not %q.", tool.Line(action, 40))
}

func (t *taskTool) start(ctx context.Context, call tool.Call, in *tool.Input) (string, error) {
	o := Spec{
		// Some providers use the id of a call again within a request.
		Key:       digest(call.RequestID, call.ID, string(call.Input)),
		SessionID: call.SessionID, RequestID: call.RequestID, Client: call.Client,
		Command: strings.TrimSpace(in.TextOr("command", "")), Dir: in.TextOr("dir", ""), Prompt: strings.TrimSpace(in.TextOr("prompt", "")),
		Description: in.TextOr("description", ""),
		Time:        time.Duration(in.Int("timeout", 0, 0, 1<<30)) * time.Second,
	}
	if err := in.Err(); err != nil {
		return "", err
	}
	if len(o.Prompt) > maxPrompt {
		return "", fault.InvalidField("prompt", "The prompt has %d bytes, the limit is %d: write it to a file and name that.", len(o.Prompt), maxPrompt)
	}
	task, fresh, err := t.s.Start(ctx, o)
	if err != nil {
		return "", err
	}
	if !fresh {
		return "It was started before, by this same call:\n" + Describe(task, time.Now()), nil
	}
	what := "command"
	if task.Kind == Agent {
		what = "sub-agent"
	}
	return fmt.Sprintf("The %s runs in the background as task %s, for at most %s. You will be told here when it has ended; do not wait for it.", what, task.ID, task.timeLimit()), nil
}

func (t *taskTool) list(ctx context.Context, sessionID string) (string, error) {
	tasks, err := t.s.Tasks(ctx, sessionID, maxShownTasks, "")
	if err != nil {
		return "", err
	}
	if len(tasks) == 0 {
		return "No background tasks were started in this conversation.", nil
	}
	now, lines := time.Now(), make([]string, len(tasks))
	for i, task := range tasks {
		lines[i] = Describe(task, now)
	}
	return strings.Join(lines, "\n"), nil
}

func (t *taskTool) output(ctx context.Context, sessionID, id string, offset int64) (string, error) {
	task, err := t.s.TaskInSession(ctx, sessionID, id)
	if err != nil {
		return "", err
	}
	p, err := t.s.Output(ctx, task, offset, maxShownBytes)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(Describe(task, time.Now()) + "\n")
	switch {
	case p.Bytes == 0:
		b.WriteString("(nothing was put out yet)")
		return b.String(), nil
	case p.Offset > 0:
		fmt.Fprintf(&b, "[from byte %d of %d", p.Offset, p.Bytes)
		if p.First > 0 {
			fmt.Fprintf(&b, "; what is before byte %d is not kept", p.First)
		}
		b.WriteString("]\n")
	}
	b.WriteString(p.Text)
	if p.Next < p.Bytes {
		fmt.Fprintf(&b, "\n[it goes on: offset %d]", p.Next)
	}
	return b.String(), nil
}

func (t *taskTool) stop(ctx context.Context, sessionID, id string) (string, error) {
	if _, err := t.s.TaskInSession(ctx, sessionID, id); err != nil {
		return "", err
	}
	task, err := t.s.Stop(ctx, id, ByAgent)
	if err != nil {
		return "", err
	}
	return Describe(task, time.Now()), nil
}

// Describe is a task in one line, for the agent.
func Describe(t Task, now time.Time) string {
	if t.State == Damaged {
		return tool.Line(fmt.Sprintf("%s %s [%s]", t.ID, t.State, t.Reason), 400)
	}
	end := now
	if t.EndedAt > 0 {
		end = time.UnixMilli(t.EndedAt)
	}
	ran := end.Sub(time.UnixMilli(t.CreatedAt)).Round(time.Second)
	line := fmt.Sprintf("%s %s (%s, %s): %s", t.ID, t.State, t.Kind, ran, t.Description)
	if t.Reason != "" {
		line += " [" + t.Reason + "]"
	}
	return tool.Line(line, 400)
}

func digest(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
