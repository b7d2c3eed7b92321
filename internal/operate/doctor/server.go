package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"

	"lilac/internal/operate/client"
	"lilac/internal/telemetry/health"
)

const startIt = "Start it with: lilac serve"

func (p Patient) server(ctx context.Context) (f Finding, running bool) {
	if p.Server == nil && p.Unfound != nil && !client.NoServer(p.Unfound) {
		advice := cmp.Or(p.Advice, startIt)
		if errors.As(p.Unfound, new(*fs.PathError)) { // a server may be running
			advice = asItsUser
		}
		return Finding{"server", Warn, p.Unfound.Error(), advice}, false
	}
	if p.Server == nil {
		return Finding{"server", Warn, "not running", cmp.Or(p.Advice, startIt)}, false
	}
	report, err := p.Server.Health(ctx)
	switch {
	case client.NoServer(err):
		return Finding{"server", Warn, "no response at " + p.Server.Addr(), cmp.Or(p.Advice, startIt)}, false
	case err != nil:
		return Finding{"server", Fail, says(err), "See its log for the reason."}, true
	case !report.Ready:
		return Finding{"server", Fail, "running, but not ready: " + report.Reason(), "See its log for the reason."}, true
	}
	return Finding{"server", OK, "ready at " + p.Server.Addr(), ""}, true
}

// parts returns findings for the components of the running server that need attention.
func (p Patient) parts(ctx context.Context) (out []Finding) {
	report, err := p.Server.Health(ctx)
	if err != nil {
		return nil // the finding about the server reports this
	}
	for _, part := range report.Parts {
		switch part.Status {
		case health.Failed:
			out = append(out, Finding{"server: " + part.Name, Fail, part.Message, "See its log for the reason."})
		case health.Warning:
			out = append(out, Finding{"server: " + part.Name, Warn, part.Message, "See its log for details."})
		}
	}
	return out
}

func (p Patient) deadLetters(ctx context.Context) Finding {
	letters, err := p.Server.DeadLetters(ctx, client.Page{Limit: 100})
	if err != nil {
		return Finding{"dead letters", Fail, says(err), "Set LILAC_TOKEN to the server's token, or use its data directory."}
	}
	if len(letters) == 0 {
		return Finding{"dead letters", OK, "none", ""}
	}
	return Finding{"dead letters", Warn, fmt.Sprintf("events that could not be handled: %d", len(letters)), "List them with lilac dlq list; then use lilac dlq replay or drop."}
}
