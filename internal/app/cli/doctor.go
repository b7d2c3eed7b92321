package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"lilac/internal/foundation/fault"
	"lilac/internal/operate/doctor"
	"lilac/internal/telemetry/tracing"
)

func (c *cli) doctor() *cobra.Command {
	var deep, online bool
	cmd := c.withJSON(&cobra.Command{
		Use:   "doctor",
		Short: "Look for what is wrong and say what to do",
		Long: "Checks the configuration, the directories, the disk, the database, the bus, the clock, the sandbox,\n" +
			"the keys, the model, the bot on Discord, the ports and the running server, and says for each what to do. It changes nothing. It\n" +
			"ends with 1 when something has failed.",
		Example: "  lilac doctor\n  lilac doctor --online    # asks the provider about the key, the model and the time\n  lilac doctor --deep    # reads every row of the database, every stored file and every event in Redis; stop the server first",
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
			_, _, traces := tracing.Environment(c.getenv)
			return c.diagnose(doctor.Examine(ctx, doctor.Patient{
				Config: cfg, Warnings: warnings, Server: server, Unfound: err, Traces: traces, Deep: deep, Online: online,
			}))
		},
	})
	cmd.Flags().BoolVar(&online, "online", false, "ask the model's provider whether it takes the key")
	cmd.Flags().BoolVar(&deep, "deep", false, "read every row of the database, every stored file and every event in Redis")
	return cmd
}

// diagnose prints findings; one that failed is the error.
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

func (c *cli) printFindings(findings []doctor.Finding) error {
	if c.json {
		return c.printJSON(findings)
	}
	for _, f := range findings {
		if _, err := fmt.Fprintf(c.out, "%-8s %-15s %s\n", f.Status, f.Check, oneLine(f.Message)); err != nil {
			return err
		}
		if f.Advice != "" {
			fmt.Fprintf(c.out, "%-8s %-15s → %s\n", "", "", f.Advice)
		}
	}
	return nil
}
