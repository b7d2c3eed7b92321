package cli

import (
	"cmp"
	"time"

	"github.com/spf13/cobra"

	"lilac/internal/engine/db"
	"lilac/internal/operate/client"
)

func nodesCommand(c *cli) *cobra.Command {
	return c.withJSON(&cobra.Command{
		Use:   "nodes",
		Short: "List the processes that use the database",
		Long: "Lists the process that works and those that wait for it to end. Only a database on PostgreSQL has more\n" +
			"than one. A process that says nothing for 15 seconds counts as gone.",
		Example: "  lilac nodes\n  lilac nodes --json",
		Args:    cobra.NoArgs,
		RunE: c.onServer(func(cmd *cobra.Command, server *client.Client, _ []string) error {
			var list struct{ Nodes []db.Node }
			if err := server.Call(cmd.Context(), "GET", "/nodes", nil, &list); err != nil {
				return err
			}
			if c.json {
				return c.printJSON(list.Nodes)
			}
			var rows [][]string
			for _, n := range list.Nodes {
				state := "standby"
				if n.Active {
					state = "active"
				}
				rows = append(rows, []string{n.Host + "/" + n.PID, state, cmp.Or(n.Version, "-"), n.Addr, when(n.Since), ago(n.SilentMS)})
			}
			return c.table("NODE STATE VERSION ADDRESS SINCE SEEN", rows)
		}),
	})
}

// ago says how many milliseconds ago something was.
func ago(ms int64) string {
	return max(0, time.Duration(ms)*time.Millisecond).Round(time.Second).String() + " ago"
}
