package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"lilac/internal/foundation/text"
	"lilac/internal/operate/client"
)

// pairingCommand returns the commands for strangers who want to send private messages.
func pairingCommand(c *cli) *cobra.Command {
	list := c.withJSON(&cobra.Command{
		Use:     "list",
		Short:   "List the people who asked to send private messages",
		Example: "  lilac pairing list",
		Args:    cobra.NoArgs,
		RunE: c.onServer(func(cmd *cobra.Command, server *client.Client, _ []string) error {
			found, err := client.Pairings{Client: server}.List(cmd.Context())
			if err != nil {
				return err
			}
			if c.json {
				return c.printJSON(found)
			}
			rows := make([][]string, 0, len(found))
			for _, p := range found {
				rows = append(rows, []string{p.Code, string(p.State), p.Platform, p.UserID, p.Name, when(p.CreatedAt)})
			}
			return c.page("CODE STATE PLATFORM USER NAME ASKED", rows, "")
		}),
	})
	settle := func(verb, short string, allow bool) *cobra.Command {
		return c.withJSON(&cobra.Command{
			Use: verb + " CODE", Short: short,
			Long:    short + ". Name the person by the code, or later by the user's ID.",
			Example: "  lilac pairing " + verb + " ABCD-EFGH",
			Args:    cobra.ExactArgs(1),
			RunE: c.onServer(func(cmd *cobra.Command, server *client.Client, args []string) error {
				p, err := client.Pairings{Client: server}.Settle(cmd.Context(), args[0], allow)
				if err != nil {
					return err
				}
				if c.json {
					return c.printJSON(p)
				}
				_, err = fmt.Fprintf(c.out, "%s (%s, user %s): %s\n", text.Sanitize(p.Name), p.Platform, p.UserID, p.State)
				return err
			}),
		})
	}
	cmd := &cobra.Command{
		Use: "pairing", Short: "Decide who may send the Discord bot private messages",
		Long:    "Strangers who send the bot a private message get a code. Approve it to let them talk to the agent in private.",
		Example: "  lilac pairing list\n  lilac pairing approve ABCD-EFGH",
	}
	cmd.AddCommand(list, settle("approve", "Let a person send private messages", true), settle("deny", "Take no private messages of a person", false))
	return cmd
}
