package task

import (
	"cmp"
	"context"
	"crypto/sha256"
	_ "embed" // for the text of the tool
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"lilac/internal/agent/tool"
	"lilac/internal/foundation/fault"
)

//go:embed tool.md
var toolText string

// ToolName is the name of the agent's tool for tasks.
const ToolName = "task"

const (
	// maxPrompt bounds the prompt of a sub-agent, in bytes.
	maxPrompt = 100_000
	// maxShownBytes bounds the output that one call shows.
	maxShownBytes = 16 << 10
	// maxShownTasks bounds the tasks that one call lists.
	maxShownTasks = 30
)

// Tool returns the tool task. Its calls can be repeated, because a start belongs to its
// call.
func Tool(s *Service) tool.Tool {
	t := &taskTool{s}
	return tool.New(tool.Spec{Name: ToolName, Description: toolText, Idempotent: true}, toolInput.display,
		func(ctx context.Context, call tool.Call, in toolInput) (tool.Result, error) {
			text, err := t.run(ctx, call, in)
			return tool.Result{Text: text}, err
		})
}

type taskTool struct{ s *Service }

type toolInput struct {
	Action      string `json:"action" enum:"start,list,output,stop" jsonschema:"What to do."`
	Command     string `json:"command,omitempty" jsonschema:"For start: the bash command to run."`
	Dir         string `json:"dir,omitempty" jsonschema:"For start with a command: the directory in the workspace where it starts."`
	Prompt      string `json:"prompt,omitempty" jsonschema:"For start, instead of a command: what a sub-agent is to do, and what to answer."`
	Agent       string `json:"agent,omitempty" jsonschema:"For start with a prompt: the name of an agent that you know for such work. Default: a sub-agent like you."`
	Description string `json:"description,omitempty" jsonschema:"For start: a few words that say what it is, for people."`
	// Models that fill in every field send 0, which means the default.
	Timeout int    `json:"timeout,omitempty" min:"0" jsonschema:"For start: seconds after which it is stopped; an hour when left out."`
	ID      string `json:"id,omitempty" jsonschema:"For output and stop: the id of the task."`
	Offset  *int64 `json:"offset,omitempty" min:"0" jsonschema:"For output: the first byte to show; the end of the output when left out."`
}

// display returns the line that people see of a call.
func (in toolInput) display() string {
	return ToolName + " " + in.Action + ": " + cmp.Or(in.Description, in.Command, in.Prompt, in.ID)
}

func (t *taskTool) run(ctx context.Context, call tool.Call, in toolInput) (string, error) {
	switch in.Action {
	case "start":
		return t.start(ctx, call, in)
	case "list":
		return t.list(ctx, call.SessionID)
	}
	if strings.TrimSpace(in.ID) == "" {
		return "", fault.InvalidField("id", "\"id\" is missing: it must be the id of a task.")
	}
	if in.Action == "stop" {
		return t.stop(ctx, call.SessionID, in.ID)
	}
	offset := int64(-maxShownBytes)
	if in.Offset != nil {
		offset = *in.Offset
	}
	return t.output(ctx, call.SessionID, in.ID, offset)
}

func (t *taskTool) start(ctx context.Context, call tool.Call, in toolInput) (string, error) {
	o := Spec{
		// Some providers reuse the id of a call within a request.
		Key:       digest(call.RequestID, call.ID, string(call.Input)),
		SessionID: call.SessionID, RequestID: call.RequestID, Client: call.Client,
		Command: strings.TrimSpace(in.Command), Dir: in.Dir, Prompt: strings.TrimSpace(in.Prompt), Agent: strings.TrimSpace(in.Agent),
		Description: in.Description,
		Time:        time.Duration(in.Timeout) * time.Second,
		Grant:       call.Grant,
	}
	if len(o.Prompt) > maxPrompt {
		return "", fault.InvalidField("prompt", "The prompt has %d bytes, more than the limit of %d. Write it to a file, and name the file in the prompt.", len(o.Prompt), maxPrompt)
	}
	task, fresh, err := t.s.Start(ctx, o)
	if err != nil {
		return "", err
	}
	if !fresh {
		return "This call has started the task before:\n" + Describe(task, time.Now()), nil
	}
	what := "command"
	switch {
	case task.Agent != "":
		what = "agent " + task.Agent
	case task.Kind == Agent:
		what = "sub-agent"
	}
	return fmt.Sprintf("The %s runs in the background as task %s, for at most %s. You will get a message here when it ends; do not wait for it.", what, task.ID, task.timeLimit()), nil
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
		b.WriteString("(no output yet)")
		return b.String(), nil
	case p.Offset > 0:
		fmt.Fprintf(&b, "[from byte %d of %d", p.Offset, p.Bytes)
		if p.First > 0 {
			fmt.Fprintf(&b, "; the output before byte %d was removed", p.First)
		}
		b.WriteString("]\n")
	}
	b.WriteString(p.Text)
	if p.Next < p.Bytes {
		fmt.Fprintf(&b, "\n[more from offset %d]", p.Next)
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

// Describe describes a task in one line, for the agent.
func Describe(t Task, now time.Time) string {
	if t.State == Damaged {
		return tool.Line(fmt.Sprintf("%s %s [%s]", t.ID, t.State, t.Reason), 400)
	}
	end := now
	if t.EndedAt > 0 {
		end = time.UnixMilli(t.EndedAt)
	}
	ran := end.Sub(time.UnixMilli(t.CreatedAt)).Round(time.Second)
	kind := string(t.Kind)
	if t.Agent != "" {
		kind += " " + t.Agent
	}
	line := fmt.Sprintf("%s %s (%s, %s): %s", t.ID, t.State, kind, ran, t.Description)
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
