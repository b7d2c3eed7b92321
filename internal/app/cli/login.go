package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"lilac/internal/operate/client"
)

func loginCommand(c *cli) *cobra.Command {
	return c.withJSON(&cobra.Command{
		Use:     "login",
		Short:   "Print a new login link for the page",
		Long:    "Gets a link from the running server that logs a browser in. The link is valid once, for ten minutes.",
		Example: "  lilac login\n  xdg-open \"$(lilac login)\"",
		Args:    cobra.NoArgs,
		RunE: c.onServer(func(cmd *cobra.Command, server *client.Client, _ []string) error {
			link, err := server.Login(cmd.Context())
			if err != nil {
				return err
			}
			if c.json {
				return c.printJSON(map[string]string{"url": link})
			}
			_, err = fmt.Fprintln(c.out, link)
			return err
		}),
	})
}
