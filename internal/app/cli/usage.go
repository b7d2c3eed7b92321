package cli

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"lilac/internal/core/session"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/text"
	"lilac/internal/operate/client"
)

// clientsPart is the last part that is printed even if it is empty.
const clientsPart = 2

// maxName bounds the titles in the table, in bytes.
const maxName = 60

func usageCommand(c *cli) *cobra.Command {
	var days int
	cmd := c.withJSON(&cobra.Command{
		Use:     "usage",
		Short:   "Show what was used by day, model, client, channel, and rule",
		Long:    "Sums up the requests of the last days: tokens, the share of the input that came from a cache, the cost of models whose price is known, and how long requests took (the median and the 95th percentile). Titles and other calls without a request are part of the tokens and the cost.",
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
			for i, part := range []struct {
				head   string
				shares []session.Share
			}{
				{"DAY", used.Days},
				{"MODEL", sharesOf(used.Models)},
				{"CLIENT", sharesOf(used.Clients)},
				{"CHANNEL", sharesOf(used.Channels)},
				{"RULE", sharesOf(used.Rules)},
				{"CALLS-FOR", used.Purposes},
			} {
				if i > clientsPart && len(part.shares) == 0 {
					continue
				}
				var rows [][]string
				for _, s := range part.shares {
					if s.Requests > 0 || s.Usage != (chat.Usage{}) {
						rows = append(rows, []string{
							nameOf(s), strconv.Itoa(s.Requests), strconv.FormatInt(s.Usage.InputTokens, 10), strconv.FormatInt(s.Usage.OutputTokens, 10),
							cachedShare(s), dollars(s.Usage.CostMicros), tookOf(s),
						})
					}
				}
				if err := c.table(part.head+" REQUESTS INPUT OUTPUT CACHED COST TOOK", rows); err != nil {
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

func sharesOf(groups []session.ShareGroup) (out []session.Share) {
	for _, g := range groups {
		out = append(out, g.Share)
	}
	return out
}

func nameOf(s session.Share) string {
	switch {
	case s.Name == session.OtherGroups:
		return "(others)"
	case s.Title != "":
		return text.Truncate(text.SingleLine(text.Sanitize(s.Title)), maxName)
	}
	return cmp.Or(s.Name, "-")
}

func tookOf(s session.Share) string {
	if s.Latency == nil {
		return "-"
	}
	seconds := func(ms int64) string { return (time.Duration(ms) * time.Millisecond).Round(time.Millisecond).String() }
	return seconds(s.Latency.MedianMs) + "/" + seconds(s.Latency.P95Ms)
}

func cachedShare(s session.Share) string {
	if s.Usage.InputTokens == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f %%", 100*float64(s.Usage.CacheReadTokens)/float64(s.Usage.InputTokens))
}
