package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

func (c *cli) login() *cobra.Command {
	return c.withJSON(&cobra.Command{
		Use:     "login",
		Short:   "Print a new link that opens the page",
		Long:    "Asks the running server for a link that logs a browser in. It works once and for a few minutes.",
		Example: "  lilac login\n  xdg-open \"$(lilac login)\"",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			server, err := c.connect()
			if err != nil {
				return err
			}
			link, err := server.Login(cmd.Context())
			if err != nil {
				return err
			}
			if c.json {
				return c.printJSON(map[string]string{"url": link})
			}
			_, err = fmt.Fprintln(c.out, link)
			return err
		},
	})
}
