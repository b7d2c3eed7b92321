package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"lilac/internal/foundation/fault"
	"lilac/internal/operate/client"
	"lilac/internal/telemetry/health"
)

func healthCommand(c *cli) *cobra.Command {
	return c.withJSON(&cobra.Command{
		Use:     "health",
		Short:   "Report whether the server is healthy",
		Long:    "Prints the status of each component of the running server. The exit code is 0 if the server is ready. Use it for container health checks and in scripts.",
		Example: "  lilac health\n  lilac health --json | jq .parts",
		Args:    cobra.NoArgs,
		RunE: c.onServer(func(cmd *cobra.Command, server *client.Client, _ []string) error {
			report, err := server.Health(cmd.Context())
			if err != nil {
				return err
			}
			if c.json {
				err = c.printJSON(report)
			} else {
				err = c.printParts(report.Parts)
			}
			if err == nil && !report.Ready {
				err = fault.New(fault.Unavailable, "Not ready: %s.", report.Reason())
			}
			return err
		}),
	})
}

func (p *printer) printParts(parts []health.Part) error {
	var errs []error
	for _, part := range parts {
		_, err := fmt.Fprintf(p.out, "%-8s %-15s %s\n", part.Status, oneLine(part.Name), oneLine(part.Message))
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
