package doctor

import (
	"context"
	"runtime"

	"lilac/internal/config"
	"lilac/internal/fault"
	"lilac/internal/sandbox"
)

func (p Patient) sandbox(ctx context.Context) Finding {
	if p.Config.Sandbox.Mode == config.SandboxOff {
		return Finding{"sandbox", Warn, "off: commands of the agent can do everything that you can", "Set sandbox.mode to auto."}
	}
	box, err := sandbox.Open(ctx, sandbox.Mode(p.Config.Sandbox.Mode))
	if err != nil {
		advice := "Install bubblewrap (apt-get install bubblewrap), or accept the risk with sandbox: {mode: off}."
		if runtime.GOOS != "linux" {
			advice = "Commands are confined on Linux only. Accept the risk with sandbox: {mode: off}."
		}
		return Finding{"sandbox", Warn, "commands are refused: " + fault.ToWire(err).Message, advice}
	}
	return Finding{"sandbox", OK, box.Name(), ""}
}
