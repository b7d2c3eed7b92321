package cli

import (
	"cmp"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"lilac/internal/engine/db"
	"lilac/internal/operate/client"
)

func nodesCommand(c *cli) *cobra.Command {
	return c.withJSON(&cobra.Command{
		Use:   "nodes",
		Short: "List the processes that use the database",
		Long: "Lists the active process, which decides and writes, and those that take over when it ends. Only a database\n" +
			"on PostgreSQL has more than one. With LILAC_NODE_URL, a process that waits also takes requests and runs\n" +
			"commands of the agent. A process that says nothing for 15 seconds counts as gone.",
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
				rows = append(rows, []string{n.Host + "/" + n.PID, nodeState(n), cmp.Or(n.Version, "-"), cmp.Or(n.URL, n.Addr), when(n.Since), ago(n.SilentMS)})
			}
			if err := c.table("NODE STATE VERSION ADDRESS SINCE SEEN", rows); err != nil {
				return err
			}
			for _, n := range list.Nodes {
				if n.Trouble != "" {
					fmt.Fprintf(c.out, "%s/%s: %s\n", oneLine(n.Host), oneLine(n.PID), oneLine(n.Trouble))
				}
			}
			return nil
		}),
	})
}

// silentAfter is the time after which a node that says nothing is called silent. It is gone soon.
const silentAfter = 5 * time.Second

// nodeState returns the state of a node in some words.
func nodeState(n db.Node) string {
	switch {
	case n.Active && n.Trouble != "":
		return "active, but the others do not reach it"
	case n.Active:
		return "active"
	case n.SilentMS > silentAfter.Milliseconds():
		return "silent"
	case n.Trouble != "":
		return "takes requests, but runs no commands"
	case n.URL != "":
		return "takes requests, runs commands"
	}
	return "standby"
}

// ago says how many milliseconds ago something was.
func ago(ms int64) string {
	return max(0, time.Duration(ms)*time.Millisecond).Round(time.Second).String() + " ago"
}
