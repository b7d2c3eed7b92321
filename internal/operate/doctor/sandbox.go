package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"lilac/internal/agent/sandbox"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/osfile"
)

// sandbox reports how commands are confined, why that mode was chosen, and how to improve it.
func (p Patient) sandbox(ctx context.Context) Finding {
	set := p.Config.Sandbox
	if set.Mode == sandbox.ModeOff && runtime.GOOS == "linux" {
		return Finding{"sandbox", Warn, "off: the agent's commands have all rights of your user", "Set sandbox.mode to auto."}
	}
	box, err := sandbox.Open(ctx, sandbox.Mode(set.Mode))
	if err != nil {
		// The message names the cause on this machine. For example, in a container, installing
		// bubblewrap does not help.
		advice := "Do what is said there; or accept the risk with sandbox: {mode: off}."
		if runtime.GOOS != "linux" {
			advice = "If the agent needs commands, run Lilac on Linux, for example in a virtual machine or in WSL."
		}
		if fault.ToWire(err).Code == sandbox.CodeNoTemp {
			advice = "Look at temporary files."
		}
		return Finding{"sandbox", Warn, "commands are refused: " + says(err), advice}
	}
	for _, path := range append(append([]string{}, set.ReadOnly...), set.Writable...) {
		if _, err := os.Stat(path); err != nil {
			return Finding{"sandbox", Fail, box.Name() + ", but every command is refused: " + path + " cannot be made visible", "Create it, or remove it from sandbox.readOnly or sandbox.writable."}
		}
	}
	message := box.Name()
	if box.Name() == string(sandbox.ModeNamespaces) {
		message = fmt.Sprintf("built-in namespaces and Landlock (version %d)", sandbox.Landlock())
		if set.Mode == sandbox.ModeNamespaces {
			message += ", as configured"
		} else if _, err := sandbox.Open(ctx, sandbox.ModeBubblewrap); err == nil {
			message += ", because they limit the number of root's processes, unlike bubblewrap"
		} else if reason := errors.Unwrap(err); reason != nil {
			message += ", because " + reason.Error()
		}
	}
	if hosts := len(set.Network.Hosts); hosts > 0 {
		message += fmt.Sprintf("; network access to %d configured hosts only", hosts)
	} else {
		message += "; no network"
	}
	if private := p.internalHosts(); private != "" {
		message += "; " + private + " may be on a private network"
	}
	if os.Getuid() == 0 && isOfRoot(p.Config.DataDir) {
		return Finding{"sandbox", OK, message, "Run Lilac as its own user instead of root. The kernel then also limits a command's processes, and an escape from the sandbox would gain less."}
	}
	return Finding{"sandbox", OK, message, ""}
}

// isOfRoot reports whether a data directory belongs to root, as it does if root runs the server. A
// service has a user of its own, also if root examines it.
func isOfRoot(dir string) bool {
	info, err := os.Stat(dir)
	if err != nil {
		return true
	}
	uid, _, ok := osfile.Owner(info)
	return !ok || uid == 0
}

// internalHosts lists the hosts that may resolve to private addresses.
func (p Patient) internalHosts() string {
	var names []string
	for _, rule := range p.Config.Sandbox.Network.EgressRules() {
		if rule.Internal {
			names = append(names, rule.Host)
		}
	}
	return strings.Join(names, ", ")
}
