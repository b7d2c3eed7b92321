package cli

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"lilac/internal/core/session"
	"lilac/internal/operate/client"
)

func usageCommand(c *cli) *cobra.Command {
	var days int
	cmd := c.withJSON(&cobra.Command{
		Use:     "usage",
		Short:   "Show what was used by day, model, and client",
		Long:    "Sums up the requests of the last days: tokens, the share of the input that came from a cache, and the cost of models whose price is known.",
		Example: "  lilac usage\n  lilac usage --days 7 --json",
		Args:    cobra.NoArgs,
		RunE: c.onServer(func(cmd *cobra.Command, server *client.Client, _ []string) error {
			var used session.Consumption
			if err := server.Call(cmd.Context(), "GET", fmt.Sprintf("/usage?days=%d", days), nil, &used); err != nil {
				return err
			}
			if c.json {
				return c.printJSON(used)
			}
			if used.Partial {
				fmt.Fprintln(c.err, "There are too many requests; the oldest are missing.")
			}
			for _, part := range []struct {
				head   string
				shares []session.Share
			}{{"DAY", used.Days}, {"MODEL", used.Models}, {"CLIENT", used.Clients}} {
				var rows [][]string
				for _, s := range part.shares {
					if s.Requests > 0 {
						rows = append(rows, []string{
							cmp.Or(s.Name, "-"), strconv.Itoa(s.Requests), strconv.FormatInt(s.Usage.InputTokens, 10), strconv.FormatInt(s.Usage.OutputTokens, 10),
							cachedShare(s), dollars(s.Usage.CostMicros),
						})
					}
				}
				if err := c.table(part.head+" REQUESTS INPUT OUTPUT CACHED COST", rows); err != nil {
					return err
				}
				fmt.Fprintln(c.out)
			}
			return nil
		}),
	})
	cmd.Flags().IntVar(&days, "days", 30, "the number of days, ending today")
	return cmd
}

func cachedShare(s session.Share) string {
	if s.Usage.InputTokens == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f %%", 100*float64(s.Usage.CacheReadTokens)/float64(s.Usage.InputTokens))
}
