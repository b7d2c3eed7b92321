package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"lilac/internal/app"
	"lilac/internal/foundation/fault"
	"lilac/internal/model/trial"
	"lilac/internal/operate/config"
	"lilac/internal/operate/doctor"
	"lilac/internal/telemetry/tracing"
)

// doctorTrial bounds the real call of the model. Slow local models need longer; "lilac models test"
// waits for them.
const doctorTrial = time.Minute

func doctorCommand(c *cli) *cobra.Command {
	var deep, online, security bool
	cmd := c.withJSON(&cobra.Command{
		Use:   "doctor",
		Short: "Diagnose problems and suggest fixes",
		Long: "Checks the configuration, directories, disk, database, bus, clock, sandbox, keys, model, Discord\n" +
			"bot, ports and running server, and suggests fixes. It changes nothing. The exit code is 1 if a\n" +
			"check fails.",
		Example: "  lilac doctor\n  lilac doctor --online    # also ask the provider about the key, the model and the time, and call the model once with a tool\n  lilac doctor --deep    # also read every row and stored file; stop the server first\n  lilac doctor --security    # report what is open to whom",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, warnings, err := c.read()
			if err != nil {
				return c.diagnose(doctor.Broken(err))
			}
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			server, err := c.connect()
			if fault.KindOf(err) == fault.Invalid {
				return err
			}
			if security {
				return c.diagnose(doctor.Security(ctx, doctor.Patient{Config: cfg, Server: server}))
			}
			getenv, unread := c.environment()
			if unread != nil {
				return unread
			}
			_, _, traces := tracing.Environment(getenv)
			return c.diagnose(doctor.Examine(ctx, doctor.Patient{
				Config: cfg, Warnings: warnings, Server: server, Unfound: err, Advice: c.advice(), Traces: traces, Deep: deep, Online: online,
				Try: func(m config.ModelChoice) trial.Report {
					ctx, cancel := context.WithTimeout(ctx, doctorTrial)
					defer cancel()
					return trial.Run(ctx, app.NewModel(m), time.Now)
				},
			}))
		},
	})
	cmd.Flags().BoolVar(&online, "online", false, "ask the model's provider whether the key is valid, and make a small real call with a tool")
	cmd.Flags().BoolVar(&security, "security", false, "report what is open to whom, instead of the other checks")
	cmd.Flags().BoolVar(&deep, "deep", false, "verify every row of the database and every stored file")
	return cmd
}

// diagnose prints the findings and returns the first failed one as an error.
func (c *cli) diagnose(findings []doctor.Finding) error {
	if err := c.printFindings(findings); err != nil {
		return err
	}
	for _, f := range findings {
		if f.Status == doctor.Fail {
			return fault.New(fault.Internal, "%s: %s", f.Check, f.Message)
		}
	}
	return nil
}

func (p *printer) printFindings(findings []doctor.Finding) error {
	if p.json {
		return p.printJSON(findings)
	}
	for _, f := range findings {
		if _, err := fmt.Fprintf(p.out, "%-8s %-15s %s\n", f.Status, f.Check, oneLine(f.Message)); err != nil {
			return err
		}
		if f.Advice != "" {
			fmt.Fprintf(p.out, "%-8s %-15s → %s\n", "", "", f.Advice)
		}
	}
	return nil
}
