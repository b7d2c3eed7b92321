package cli

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"lilac/internal/engine/bus"
	"lilac/internal/engine/sqlitebus"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/operate/client"
	"lilac/internal/operate/doctor"
)

func groupsCommand(c *cli) *cobra.Command {
	list := c.withJSON(&cobra.Command{
		Use:     "list",
		Short:   "List consumer groups and their backlog",
		Example: "  lilac groups list",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var found []bus.GroupStatus
			err := c.onGroups(cmd.Context(),
				func(s *client.Client) (err error) { found, err = s.Groups(cmd.Context()); return err },
				false, func(b *sqlitebus.Bus) (err error) { found, err = b.Groups(cmd.Context()); return err })
			if err != nil {
				return err
			}
			if c.json {
				return c.printJSON(found)
			}
			rows := make([][]string, 0, len(found))
			for _, g := range found {
				active := "yes"
				if !g.Active {
					active = "no, for " + (time.Duration(g.SilentMS) * time.Millisecond).Round(time.Second).String()
				}
				rows = append(rows, []string{
					string(g.Topic), g.Group, strconv.FormatInt(g.Backlog, 10), strconv.FormatInt(g.Pending, 10), active,
				})
			}
			return c.table("TOPIC GROUP BACKLOG PENDING ACTIVE", rows)
		},
	})
	drop := &cobra.Command{
		Use:     "drop TOPIC GROUP",
		Short:   "Drop an unused consumer group and its backlog",
		Example: "  lilac groups drop env old-rules",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			topic, group := event.Topic(args[0]), args[1]
			dropped := false
			err := c.onGroups(cmd.Context(),
				func(s *client.Client) error { dropped = true; return s.DropGroup(cmd.Context(), topic, group) },
				true, func(b *sqlitebus.Bus) error { dropped = true; return b.DropGroup(cmd.Context(), topic, group) })
			if err == nil && !dropped {
				err = fault.New(fault.NotFound, "There is no group %s of %s: there is no database yet.", group, topic)
			}
			if err != nil {
				return err
			}
			_, err = c.out.Write([]byte("dropped " + args[0] + " " + args[1] + "\n"))
			return err
		},
	}
	cmd := &cobra.Command{
		Use: "groups", Short: "List consumer groups and their backlog; drop unused groups", Example: "  lilac groups list",
	}
	cmd.AddCommand(list, drop)
	return cmd
}

// onGroups calls the running server, or opens the database if no server runs, to change it or to
// read only.
func (c *cli) onGroups(ctx context.Context, ask func(*client.Client) error, change bool, open func(*sqlitebus.Bus) error) error {
	server, err := c.connect()
	if err == nil {
		if err = ask(server); !client.NoServer(err) {
			return err
		}
	} else if !client.NoServer(err) && fault.KindOf(err) != fault.Unauthenticated {
		return err
	}
	at, err := c.locate()
	if err != nil {
		return err
	}
	return doctor.WithGroups(ctx, at, change, open)
}
