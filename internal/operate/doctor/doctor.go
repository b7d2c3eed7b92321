package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"lilac/internal/foundation/fault"
	"lilac/internal/model/trial"
	"lilac/internal/operate/client"
	"lilac/internal/operate/config"
)

// A Status is the outcome of a check.
type Status string

// The possible outcomes.
const (
	OK   Status = "ok"
	Warn Status = "warning"
	Fail Status = "failed"
)

// A Finding is the result of one check.
type Finding struct {
	Check   string `json:"check"`
	Status  Status `json:"status"`
	Message string `json:"message"`
	// Advice suggests a fix; empty if none is needed.
	Advice string `json:"advice,omitempty"`
}

// A Patient is the installation to examine.
type Patient struct {
	Config *config.Config
	// Server is the client of the running server. If it is nil, no server was found, and Unfound
	// says why.
	Server  *client.Client
	Unfound error
	// Advice says how to start the server; empty means with "lilac serve".
	Advice string
	// Warnings lists the warnings about the configuration file.
	Warnings []config.Warning
	// Traces is the error that a start returns for the OTEL_* variables, or nil.
	Traces error
	// Deep makes the checks read every row of the database and every stored file.
	Deep bool
	// Online makes the check of the model ask the provider whether the API key is valid, and call
	// the model with Try, unless that is nil.
	Online bool
	Try    func(config.ModelChoice) trial.Report
	Now    func() time.Time
}

// Broken returns the only finding for a configuration that cannot be loaded: the other checks need
// a configuration.
func Broken(err error) []Finding {
	var out []Finding
	found, more := config.Each(err)
	for _, mistake := range found {
		out = append(out, Finding{"configuration", Fail, mistake.Error(), ""})
	}
	last := &out[len(out)-1]
	last.Advice = "Correct it there. \"lilac config schema\" and docs/configuration.md list the keys and their values."
	if more > 0 {
		last.Advice = fmt.Sprintf("There are %d more mistakes. ", more) + last.Advice
	}
	return out
}

// says returns what an error says to the operator. An unclassified error says its own text: doctor has
// no log that could have it.
func says(err error) string {
	if e := (*fault.Error)(nil); !errors.As(err, &e) && fault.KindOf(err) == fault.Internal {
		return fault.Plain(err)
	}
	return fault.ToWire(err).Message
}

// Examine runs every check. It takes at most a few seconds, unless Deep is set.
func Examine(ctx context.Context, p Patient) []Finding {
	if p.Now == nil {
		p.Now = time.Now
	}
	server, running := p.server(ctx)
	out := []Finding{
		p.configuration(),
		p.directory("data directory", p.Config.DataDir),
		p.directory("stored files", config.BlobsDir(p.Config)),
		p.workspace(running),
		temporary(os.TempDir()),
		p.private(),
		p.token(),
		p.disk(),
		p.clock(),
		p.database(ctx, running),
		p.bus(ctx),
		p.sandbox(ctx),
		p.rights(),
		p.keys(),
		p.traces(),
	}
	out = append(out, p.bucket(ctx)...)
	out = append(out, p.programs()...)
	out = append(out, skillsOf(p.Config)...)
	out = append(out, p.model(ctx)...)
	out = append(out, p.discord(ctx)...)
	out = append(out, loginProvider(ctx, p.Config.Accounts.OIDC)...)
	out = append(out, server)
	if running {
		out = append(out, p.parts(ctx)...)
		out = append(out, p.groups(ctx), p.deadLetters(ctx))
	} else {
		out = append(out, p.port(), p.toolPort(), p.leftBehind(ctx))
	}
	return out
}
