package cli

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"lilac/internal/operate/client"
)

func dlqCommand(c *cli) *cobra.Command {
	var page client.Page
	list := withPage(c.withJSON(&cobra.Command{
		Use:     "list",
		Short:   "List dead letters, newest first",
		Example: "  lilac dlq list --json",
		Args:    cobra.NoArgs,
		RunE: c.onServer(func(cmd *cobra.Command, server *client.Client, _ []string) error {
			letters, err := server.DeadLetters(cmd.Context(), page)
			if err != nil {
				return err
			}
			if c.json {
				return c.printJSON(letters)
			}
			rows := make([][]string, 0, len(letters))
			for _, l := range letters {
				rows = append(rows, []string{l.ID, l.Group, string(l.Event.Type), strconv.Itoa(l.Attempts), when(l.At), l.Reason})
			}
			return c.table("ID GROUP TYPE ATTEMPTS WHEN REASON", rows)
		}),
	}), &page)
	show := &cobra.Command{
		Use:     "show ID",
		Short:   "Show a dead letter with its event, as JSON",
		Example: "  lilac dlq show 12",
		Args:    cobra.ExactArgs(1),
		RunE: c.onServer(func(cmd *cobra.Command, server *client.Client, args []string) error {
			letter, err := server.DeadLetter(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return c.printJSON(letter)
		}),
	}
	replay := &cobra.Command{
		Use:     "replay ID...",
		Short:   "Deliver dead letters to their group again",
		Example: "  lilac dlq replay 12 13",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.eachLetter(args, "replayed", func(server *client.Client, id string) error {
				return server.ReplayDeadLetter(cmd.Context(), id)
			})
		},
	}
	drop := &cobra.Command{
		Use:     "drop ID...",
		Short:   "Delete dead letters permanently",
		Example: "  lilac dlq drop 12",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.eachLetter(args, "dropped", func(server *client.Client, id string) error {
				return server.DropDeadLetter(cmd.Context(), id)
			})
		},
	}
	cmd := &cobra.Command{
		Use: "dlq", Short: "List, show, replay and drop dead letters (events that could not be handled)", Example: "  lilac dlq list",
	}
	cmd.AddCommand(list, show, replay, drop)
	return cmd
}

func (c *cli) eachLetter(ids []string, done string, do func(*client.Client, string) error) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	for _, id := range ids {
		if err := do(server, id); err != nil {
			return err
		}
		fmt.Fprintln(c.out, done, id)
	}
	return nil
}
