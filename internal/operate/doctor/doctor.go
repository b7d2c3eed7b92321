package doctor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"lilac/internal/foundation/fault"
	"lilac/internal/operate/client"
	"lilac/internal/operate/config"
)

// Status is how a check went.
type Status string

// The outcomes of a check.
const (
	OK   Status = "ok"
	Warn Status = "warning"
	Fail Status = "failed"
)

// Finding is the outcome of one check.
type Finding struct {
	Check   string `json:"check"`
	Status  Status `json:"status"`
	Message string `json:"message"`
	// Advice says what to do; empty when there is nothing to do.
	Advice string `json:"advice,omitempty"`
}

// Patient is what is examined.
type Patient struct {
	Config *config.Config
	// Server is the client of the running server; nil when none was found, and
	// then Unfound says why.
	Server  *client.Client
	Unfound error
	// Warnings are oddities of the configuration file.
	Warnings []config.Warning
	// Traces is why a start refuses OpenTelemetry's variables; nil when it does not.
	Traces error
	// Deep reads every row of the database, every stored file and every entry in
	// Redis.
	Deep bool
	// Online asks the provider of the model whether it takes the key.
	Online bool
	Now    func() time.Time
}

// Broken is the one finding about a configuration that cannot be used: without
// it nothing else can be looked at.
func Broken(err error) []Finding {
	var out []Finding
	found, more := config.Each(err)
	for _, mistake := range found {
		out = append(out, Finding{"configuration", Fail, fault.ToWire(mistake).Message, ""})
	}
	last := &out[len(out)-1]
	last.Advice = "Change it there; \"lilac config schema\" and docs/configuration.md say what may stand where."
	if more > 0 {
		last.Advice = fmt.Sprintf("There are %d more mistakes. ", more) + last.Advice
	}
	return out
}

// Examine runs every check. It takes a few seconds at most, but for a deep one.
func Examine(ctx context.Context, p Patient) []Finding {
	if p.Now == nil {
		p.Now = time.Now
	}
	server, running := p.server(ctx)
	out := []Finding{
		p.configuration(),
		p.directory("data directory", p.Config.DataDir),
		p.directory("stored files", filepath.Join(p.Config.DataDir, "blobs")),
		p.workspace(running),
		temporary(os.TempDir()),
		p.private(),
		p.token(),
		p.disk(),
		p.clock(),
		p.database(ctx, running),
		p.bus(ctx),
		p.sandbox(ctx),
		p.keys(),
		p.traces(),
	}
	out = append(out, p.model(ctx)...)
	out = append(out, p.discord(ctx)...)
	out = append(out, server)
	if running {
		out = append(out, p.parts(ctx)...)
		out = append(out, p.groups(ctx), p.deadLetters(ctx))
	} else {
		out = append(out, p.port(), p.toolPort(), p.leftBehind(ctx))
	}
	return out
}
