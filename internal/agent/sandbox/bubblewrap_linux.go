package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

// maxSetupWords limits the error output of bubblewrap that is kept, in bytes.
const maxSetupWords = 1 << 10

// File descriptors of the sandbox, after stdin, stdout and stderr.
const (
	argsFD = 3 + iota
	statusFD
	gateFD
	filterFD
	textFD // the first of the descriptors for layerText, one for each file
)

// detectBubblewrap returns bubblewrap if it is in the PATH and a test command runs in it.
func detectBubblewrap(ctx context.Context) (Sandbox, error) {
	path, err := exec.LookPath("bwrap")
	if err != nil {
		return nil, errors.New("bubblewrap (bwrap) is not installed")
	}
	// Old versions and some machines cannot forbid further namespaces or limit a tmpfs. The
	// seccomp filter and the watcher cover that as well, so the sandbox works without these
	// options. The host name protects nothing, and containers do not allow setting it.
	var last error
	for _, box := range []bubblewrap{{noUserns: true, sized: true}, {noUserns: true}, {sized: true}, {}} {
		for _, named := range []bool{true, false} {
			box.path, box.named = path, named
			if last = probe(ctx, box); last == nil {
				return box, nil
			}
			if ctx.Err() != nil || errors.Is(last, errHangs) {
				return nil, fmt.Errorf("bubblewrap does not work here: %w", last)
			}
		}
	}
	return nil, fmt.Errorf("bubblewrap does not work here: %w", last)
}

// bubblewrap runs each command in its own bwrap process.
type bubblewrap struct {
	path     string
	noUserns bool // --disable-userns works here
	sized    bool // --size works here
	named    bool // --hostname works here
}

func (bubblewrap) Name() string { return "bubblewrap" }

func (b bubblewrap) Run(ctx context.Context, cmd Command, policy Policy) (Result, error) {
	r, err := resolve(cmd, policy)
	if err != nil {
		return Result{}, err
	}
	filter, err := seccompFilter()
	if err != nil {
		return Result{}, err
	}
	layers := r.layers()
	least := int64(0)
	if r.Proxy != "" {
		least = helperBytes
		self, err := r.helper()
		if err != nil {
			return Result{}, err
		}
		layers = append(layers, layer{Kind: layerBind, Source: self, Target: helperProgram})
		cmd.Argv = slices.Concat([]string{helperProgram, argForward}, cmd.Argv)
	}
	data := make([]string, textFD)
	data[argsFD] = strings.Join(b.args(r, layers, cmd), "\x00") + "\x00"
	data[filterFD] = string(encodeFilter(filter))
	for _, l := range layers {
		if l.Kind == layerText {
			data = append(data, l.Source)
		}
	}
	// The environment, which includes tokens, is passed through a descriptor: every user of
	// the machine can read arguments, and environment variables would affect bwrap itself.
	argv := slices.Concat([]string{"bwrap", "--args", strconv.Itoa(argsFD), "--"}, cmd.Argv)
	setup := &prefix{limit: maxSetupWords}
	p := process{
		path: b.path, argv: argv, dir: "/", env: []string{}, cmd: cmd, data: data, status: statusFD, gate: gateFD,
		setup: setup, limits: r.Limits, least: least, written: r.written(),
	}
	return p.confined(ctx)
}

// helperBytes is the per-process memory limit, in bytes, when this program forwards the
// connections of a command and therefore has the command's limits. It needs a quarter of
// that, or nearly all of it when built with the race detector.
const helperBytes = 512 << 20

// helper returns the path of this program, which forwards connections in the sandbox.
func (r resolved) helper() (string, error) {
	if !reentrant {
		return "", unavailable("This program cannot carry the connections of a command.")
	}
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find our own program: %w", err)
	}
	return self, nil
}

// args translates the policy to arguments of bubblewrap.
func (b bubblewrap) args(r resolved, layers []layer, cmd Command) []string {
	args := []string{
		"--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try",
		"--die-with-parent", "--new-session", "--cap-drop", "ALL",
		"--json-status-fd", strconv.Itoa(statusFD), "--block-fd", strconv.Itoa(gateFD), "--seccomp", strconv.Itoa(filterFD), "--clearenv",
	}
	if b.named {
		args = append(args, "--hostname", r.Hostname)
	}
	if b.noUserns {
		args = append(args, "--disable-userns")
	}
	add := func(words ...string) { args = append(args, words...) }
	text := textFD
	for _, l := range layers {
		switch l.Kind {
		case layerLink:
			add("--symlink", l.Source, l.Target)
		case layerText:
			add("--file", strconv.Itoa(text), l.Target) // in the root, which becomes read-only below
			text++
		case layerBind:
			add(map[bool]string{true: "--bind", false: "--ro-bind"}[l.Writable], l.Source, l.Target)
		case layerTmpfs:
			if b.sized {
				add("--size", strconv.FormatInt(l.Bytes, 10))
			}
			add("--tmpfs", l.Target)
			if !l.Writable {
				add("--remount-ro", l.Target)
			}
		case layerProc:
			add("--proc", l.Target)
		case layerDev:
			add("--dev", l.Target)
		}
	}
	// Root can write to /proc/sys even without capabilities and could take over the machine
	// (core_pattern). Lilac's user may be root, so /proc is read-only.
	add("--remount-ro", "/proc", "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", r.dir)
	for _, kv := range r.environment(cmd.Env) {
		key, value, _ := strings.Cut(kv, "=")
		add("--setenv", key, value)
	}
	return args
}
