package builtin

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"lilac/internal/egress"
	"lilac/internal/fault"
	"lilac/internal/sandbox"
	"lilac/internal/tool"
)

//go:embed bash.md
var bashText string

// The limits of bash.
const (
	bashTimeout    = 120 // seconds, when the call does not say
	bashMaxTimeout = 600
	// The kernel takes at most 128 KiB in one argument.
	bashMaxCommand = 100_000
)

func newBash(ws *workspace, box sandbox.Sandbox, opts Options, log *slog.Logger) tool.Tool {
	b := &bash{
		ws: ws, box: box, log: log, env: slices.Clone(opts.Env), egress: opts.Egress, access: opts.Access,
		longest: int(cmp.Or(opts.CommandTime, bashMaxTimeout*time.Second).Seconds()),
		policy: sandbox.Policy{
			Workspace: ws.dir, Hidden: slices.Clone(opts.Hidden), Masked: slices.Clone(opts.Masked), Binds: slices.Clone(opts.Binds),
			Limits: opts.Limits, TmpBytes: opts.TmpBytes,
		},
	}
	return &action{
		spec: tool.Spec{
			Name: "bash", Description: strings.ReplaceAll(bashText, "{{network}}", b.network()),
			Schema: json.RawMessage(`{"type":"object","properties":{
"command":{"type":"string","description":"The bash command, or several lines of them."},
"timeout":{"type":"integer","minimum":1,"maximum":600,"description":"Seconds after which it is killed; 120 when left out."},
"dir":{"type":"string","description":"Directory in the workspace where it starts; the workspace itself when left out."}},
"required":["command"]}`),
		},
		display: field("command"),
		run:     b.run,
	}
}

type bash struct {
	ws     *workspace
	box    sandbox.Sandbox
	policy sandbox.Policy
	env    []string
	log    *slog.Logger
	egress *egress.Proxy
	access Access
	// longest is how many seconds a command may run, whatever the call says.
	longest int
}

// network says in the text for the model what commands can reach.
func (b *bash) network() string {
	if b.egress == nil {
		return "There is no network"
	}
	return "Of the network only these hosts can be reached, by HTTP and HTTPS through the proxy that the environment names (names are not resolved in the sandbox): " +
		egress.Names(b.egress.Rules())
}

func (b *bash) run(ctx context.Context, call tool.Call, in *tool.Input) (tool.Result, error) {
	command := in.Need("command")
	timeout := in.Int("timeout", bashTimeout, 1, bashMaxTimeout)
	dir := in.TextOr("dir", "")
	if err := in.Err(); err != nil {
		return tool.Result{}, err
	}
	if len(command) > bashMaxCommand {
		return tool.Result{}, fault.InvalidField("command", "The command has %d bytes, the limit is %d: write it to a file and run that.", len(command), bashMaxCommand)
	}
	rel, err := b.ws.rel(dir)
	if err != nil {
		return tool.Result{}, err
	}
	timeout = min(timeout, b.longest)
	out := tool.NewOutput(b.ws.dir, call.ID, tool.Limits{})
	ended, denied, err := b.execute(ctx, call, sandbox.Command{
		Argv:    []string{"bash", "-c", command},
		Dir:     rel,
		Stdout:  &progress{out: out, show: call.Progress},
		Timeout: time.Duration(timeout) * time.Second,
	})
	text := strings.TrimRight(out.Text(), "\n")
	if text == "" {
		text = "(no output)"
	}
	for _, target := range denied {
		text += "\n[network: " + target + " is not allowed]"
	}
	result := tool.Result{Text: text}
	switch {
	case ctx.Err() != nil:
		result.Text += "\n\n[the command was cancelled and killed with everything it had started]"
		return result, context.Cause(ctx)
	case err != nil:
		var f *fault.Error
		if errors.As(err, &f) && f.Kind == fault.Unavailable {
			b.log.WarnContext(ctx, "sandbox_unavailable", "sandbox", b.box.Name(), "error", err)
		}
		return tool.Result{}, err
	case ended.TimedOut:
		result.Failed = true
		result.Text += fmt.Sprintf("\n\n[timed out after %d s: the command was killed with everything it had started]", timeout)
	case ended.Exceeded != "":
		result.Failed = true
		result.Text += "\n\n[" + exceededText(ended.Exceeded) + ": the command was killed with everything it had started]"
	case ended.ExitCode != 0:
		result.Failed = true
		result.Text += "\n\n[" + exitText(ended) + "]"
	}
	return result, nil
}

// execute runs a command, with a way out of its own when there is a network.
func (b *bash) execute(ctx context.Context, call tool.Call, cmd sandbox.Command) (ended sandbox.Result, denied []string, err error) {
	policy := b.policy
	cmd.Env = append(slices.Clone(b.env),
		"LILAC_REQUEST_ID="+call.RequestID, "LILAC_SESSION_ID="+call.SessionID, "LILAC_REQUEST_CLIENT="+call.Client)
	if b.access != nil {
		pass, err := b.access.Open(call)
		if err != nil {
			return ended, nil, err
		}
		defer pass.Close()
		cmd.Env = append(cmd.Env, pass.Env...)
		policy.Binds = slices.Concat(policy.Binds, pass.Binds)
	}
	if b.egress == nil {
		ended, err = b.box.Run(ctx, cmd, policy)
		return ended, nil, err
	}
	gate, err := b.egress.Open(ctx, b.log.With("request_id", call.RequestID, "session_id", call.SessionID))
	if err != nil {
		return ended, nil, err
	}
	policy.Proxy = gate.Path()
	cmd.Env = append(cmd.Env, egress.GitEnvironment(b.egress.Rules())...)
	ended, err = b.box.Run(ctx, cmd, policy)
	return ended, gate.Denied(), errors.Join(err, gate.Close())
}

func exceededText(what sandbox.Exceeded) string {
	return map[sandbox.Exceeded]string{
		sandbox.ExceededMemory:    "it used more memory than a command may",
		sandbox.ExceededProcesses: "it started more processes than a command may",
		sandbox.ExceededDisk:      "it wrote more to the disk than a command may, or the disk is nearly full",
		sandbox.ExceededOutput:    "it printed more than a command may",
	}[what]
}

func exitText(r sandbox.Result) string {
	if r.ExitCode > 128 && r.ExitCode < 128+65 {
		return fmt.Sprintf("exit code %d: killed by signal %d", r.ExitCode, r.ExitCode-128)
	}
	return fmt.Sprintf("exit code %d", r.ExitCode)
}

// progress hands output on and shows the last line of each piece.
type progress struct {
	out  *tool.Output
	show func(line string)
	mu   sync.Mutex
	// line is the beginning of a line whose end has not arrived.
	line []byte
}

// maxProgressLine is how much of a line is shown; a line may be endless.
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
