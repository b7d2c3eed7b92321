package builtin

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"lilac/internal/agent/tool"
)

//go:embed bash.md
var bashText string

// The limits of bash.
const (
	bashTimeout    = 120 // seconds, by default
	bashMaxTimeout = 600
	// The kernel takes at most 128 KiB in one argument.
	bashMaxCommand = 100_000
)

func newBash(shell *Shell, longest time.Duration) tool.Tool {
	b := &bash{shell: shell, longest: int(cmp.Or(longest, bashMaxTimeout*time.Second).Seconds())}
	return define(
		tool.Spec{Name: "bash", Description: strings.ReplaceAll(bashText, "{{network}}", shell.network())},
		func(in bashInput) string { return in.Command }, b.run)
}

type bashInput struct {
	Command string `json:"command" blank:"no" jsonschema:"The bash command, or several lines of them."`
	Timeout int    `json:"timeout,omitempty" min:"1" max:"600" jsonschema:"Seconds after which it is killed; 120 when left out."`
	Dir     string `json:"dir,omitempty" jsonschema:"Directory in the workspace where it starts; the workspace itself when left out."`
}

type bash struct {
	shell *Shell
	// longest limits the seconds of a command, whatever the call asks for.
	longest int
}

func (b *bash) run(ctx context.Context, call tool.Call, in bashInput) (tool.Result, error) {
	timeout := min(cmp.Or(in.Timeout, bashTimeout), b.longest)
	out := tool.NewOutput(b.shell.ws.in(call.Workspace).dir, call.ID, tool.Limits{})
	ended, err := b.shell.Run(ctx, call, Line{
		Command: in.Command, Dir: in.Dir, Timeout: time.Duration(timeout) * time.Second,
		Output: &progress{out: out, show: call.Progress},
	})
	text := strings.TrimRight(out.Text(), "\n")
	if text == "" {
		text = "(no output)"
	}
	for _, target := range ended.Denied {
		text += "\n[network: " + target + " is not allowed]"
	}
	result := tool.Result{Text: text}
	switch {
	case ctx.Err() != nil:
		result.Text += "\n\n[the command was cancelled and killed with everything it had started]"
		return result, context.Cause(ctx)
	case err != nil:
		return tool.Result{}, err
	case ended.TimedOut:
		result.Failed = true
		result.Text += fmt.Sprintf("\n\n[timed out after %d s: the command was killed with everything it had started]", timeout)
	case ended.Killed() != "":
		result.Failed = true
		result.Text += "\n\n[" + ended.Killed() + ": the command was killed with everything it had started]"
	case ended.ExitCode != 0:
		result.Failed = true
		result.Text += "\n\n[" + exitText(ended) + "]"
	}
	return result, nil
}

func exitText(r Ended) string {
	if r.ExitCode > 128 && r.ExitCode < 128+65 {
		return fmt.Sprintf("exit code %d: killed by signal %d", r.ExitCode, r.ExitCode-128)
	}
	return fmt.Sprintf("exit code %d", r.ExitCode)
}

// progress passes output on and shows the last line of each write.
type progress struct {
	out  *tool.Output
	show func(line string)
	mu   sync.Mutex
	// line is the beginning of an unfinished line.
	line []byte
}

// maxProgressLine bounds the part of a line that is shown; a line may be endless.
const maxProgressLine = 200

func (p *progress) Write(b []byte) (int, error) {
	n, err := p.out.Write(b)
	if p.show == nil {
		return n, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	text := append(p.line, b[max(0, len(b)-4096):]...)
	partial := text[bytes.LastIndexByte(text, '\n')+1:]
	last := bytes.TrimRight(text, "\r\n\t ")
	last = last[bytes.LastIndexByte(last, '\n')+1:]
	p.line = slices.Clone(partial[:min(len(partial), 4*maxProgressLine)])
	if line := tool.Line(string(last), maxProgressLine); line != "" {
		p.show(line)
	}
	return n, err
}
