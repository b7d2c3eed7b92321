package cli

import (
	"github.com/spf13/cobra"

	"lilac/internal/operate/client"
)

// approvalsCommand returns the commands for approvals that hold in a conversation.
func approvalsCommand(c *cli) *cobra.Command {
	list := c.withJSON(&cobra.Command{
		Use:     "list SESSION",
		Short:   "List what was allowed \"always here\" in a conversation",
		Example: "  lilac approvals list 01k2…",
		Args:    cobra.ExactArgs(1),
		RunE: c.onServer(func(cmd *cobra.Command, server *client.Client, args []string) error {
			found, err := client.Approvals{Client: server}.List(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if c.json {
				return c.printJSON(found)
			}
			rows := make([][]string, 0, len(found))
			for _, a := range found {
				rows = append(rows, []string{a.Tool, a.By})
			}
			return c.page("TOOL BY", rows, "")
		}),
	})
	revoke := &cobra.Command{
		Use:     "revoke SESSION [TOOL]",
		Short:   "Ask again before calls of a tool, or of all tools, in a conversation",
		Example: "  lilac approvals revoke 01k2… bash",
		Args:    cobra.RangeArgs(1, 2),
		RunE: c.onServer(func(cmd *cobra.Command, server *client.Client, args []string) error {
			tool := ""
			if len(args) > 1 {
				tool = args[1]
			}
			return client.Approvals{Client: server}.Revoke(cmd.Context(), args[0], tool)
		}),
	}
	cmd := &cobra.Command{Use: "approvals", Short: "List and revoke what was allowed \"always here\"", Example: "  lilac approvals list 01k2…"}
	cmd.AddCommand(list, revoke)
	return cmd
}
