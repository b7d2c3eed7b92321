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
	"lilac/internal/operate/config"
)

// sandbox reports how commands are confined, why that mode was chosen, and how to improve it.
func (p Patient) sandbox(ctx context.Context) Finding {
	set := p.Config.Sandbox
	if set.Mode == config.SandboxOff {
		return Finding{"sandbox", Warn, "off: commands of the agent can do everything that you can", "Set sandbox.mode to auto."}
	}
	box, err := sandbox.Open(ctx, sandbox.Mode(set.Mode))
	if err != nil {
		// The message names the cause on this machine. For example, in a container, installing
		// bubblewrap does not help.
		advice := "Do what is said there; or accept the risk with sandbox: {mode: off}."
		if runtime.GOOS != "linux" {
			advice = "Commands are confined on Linux only. Accept the risk with sandbox: {mode: off}."
		}
		if fault.ToWire(err).Code == sandbox.CodeNoTemp {
			advice = "Look at temporary files."
		}
		return Finding{"sandbox", Warn, "commands are refused: " + fault.ToWire(err).Message, advice}
	}
	for _, path := range append(append([]string{}, set.ReadOnly...), set.Writable...) {
		if _, err := os.Stat(path); err != nil {
			return Finding{"sandbox", Fail, box.Name() + ", but every command is refused: " + path + " cannot be shown", "Make it, or take it out of sandbox.readOnly or sandbox.writable."}
		}
	}
	message := box.Name()
	if box.Name() == string(sandbox.ModeNamespaces) {
		message = fmt.Sprintf("namespaces of our own and Landlock (version %d)", sandbox.Landlock())
		if set.Mode == config.SandboxNamespaces {
			message += ", as configured"
		} else if _, err := sandbox.Open(ctx, sandbox.ModeBubblewrap); err == nil {
			message += ", which bound the number of root's processes, as bubblewrap does not"
		} else if reason := errors.Unwrap(err); reason != nil {
			message += ", because " + reason.Error()
		}
	}
	if hosts := len(set.Network.Hosts); hosts > 0 {
		message += fmt.Sprintf("; the network is closed but for %d configured hosts", hosts)
	} else {
		message += "; no network"
	}
	if private := p.internalHosts(); private != "" {
		message += "; of these " + private + " may be on a private network"
	}
	if os.Getuid() == 0 {
		return Finding{"sandbox", OK, message, "Run Lilac as a user of its own, not as root: then the kernel also counts a command's processes, and a way out of the sandbox would lead to less."}
	}
	return Finding{"sandbox", OK, message, ""}
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
