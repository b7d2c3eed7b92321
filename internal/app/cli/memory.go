package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lilac/internal/app"
	"lilac/internal/core/memory"
	"lilac/internal/foundation/text"
)

// memoryCommand returns the commands for the memory. They read and write its files; Lilac
// need not run.
func memoryCommand(c *cli) *cobra.Command {
	open := func() (*memory.Store, error) {
		cfg, err := c.load()
		if err != nil {
			return nil, err
		}
		return app.MemoryOf(cfg), nil
	}
	list := c.withJSON(&cobra.Command{
		Use:     "list",
		Short:   "List what the agent remembers",
		Long:    "The notes are plain files: PLACE/NAME.md in the directory memory of the data directory, or in memory.dir.\nEdit them with any editor; the next conversation sees the change.",
		Example: "  lilac memory list",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			store, err := open()
			if err != nil {
				return err
			}
			places, err := store.Places()
			if err != nil {
				return err
			}
			notes, err := store.List(places...)
			if err != nil {
				return err
			}
			if c.json {
				return c.printJSON(append([]memory.Note{}, notes...))
			}
			rows := make([][]string, 0, len(notes))
			for _, n := range notes {
				rows = append(rows, []string{n.Place, n.Name, orDash(n.Summary)})
			}
			return c.table("PLACE NAME SUMMARY", rows)
		},
	})
	log := c.withJSON(&cobra.Command{
		Use:     "log",
		Short:   "List the last changes of the memory",
		Example: "  lilac memory log",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			store, err := open()
			if err != nil {
				return err
			}
			changes, err := store.Changes(100)
			if err != nil {
				return err
			}
			if c.json {
				return c.printJSON(append([]memory.Change{}, changes...))
			}
			rows := make([][]string, 0, len(changes))
			for _, one := range changes {
				what := "(removed)"
				if one.After != nil {
					what = text.TruncateRunes(text.SingleLine(*one.After), 60)
				}
				rows = append(rows, []string{one.ID, time.UnixMilli(one.At).Format(time.DateTime), one.Place().String() + "/" + one.Name, orDash(one.RequestID), what})
			}
			return c.table("CHANGE TIME NOTE REQUEST TEXT", rows)
		},
	})
	undo := &cobra.Command{
		Use: "undo CHANGE", Short: "Undo a change of the memory",
		Long:    "Brings the note back to its text before the change, unless it was changed since. \"lilac memory log\" and\n\"lilac requests show\" name the changes.",
		Example: "  lilac memory undo 01k2…", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			store, err := open()
			if err != nil {
				return err
			}
			done, err := store.Undo(args[0])
			if err != nil {
				return err
			}
			what := "restored"
			if done.After == nil {
				what = "removed"
			}
			fmt.Fprintf(c.out, "%s %s/%s\n", what, done.Place(), done.Name)
			return nil
		},
	}
	cmd := &cobra.Command{Use: "memory", Short: "List what the agent remembers, and undo changes", Example: strings.Join([]string{list.Example, log.Example}, "\n")}
	cmd.AddCommand(list, log, undo)
	return cmd
}
