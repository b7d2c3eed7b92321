package cli

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/text"
	"lilac/internal/operate/client"
)

// table prints rows under a head, in columns.
func (c *cli) table(head string, rows [][]string) error {
	w := tabwriter.NewWriter(c.out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, strings.ReplaceAll(head, " ", "\t"))
	for _, row := range rows {
		for i, cell := range row {
			row[i] = text.TruncateRunes(oneLine(cell), 72)
		}
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("print table: %w", err)
	}
	return nil
}

// page prints a page of a list as a table, and beside the output how it goes on.
func (c *cli) page(head string, rows [][]string, next string) error {
	if err := c.table(head, rows); err != nil || next == "" {
		return err
	}
	fmt.Fprintf(c.err, "There are older ones: --before %s\n", oneLine(next))
	return nil
}

// when prints Unix milliseconds for people.
func when(ms int64) string {
	if ms == 0 {
		return "-"
	}
	return time.UnixMilli(ms).Format("2006-01-02 15:04:05")
}

// dollars prints millionths of a dollar.
func dollars(micros int64) string {
	if micros == 0 {
		return "-"
	}
	return fmt.Sprintf("$%.4f", float64(micros)/1e6)
}

// maxListed is what the server answers with at most.
const maxListed = 1000

// withPage adds the flags of a list that is read page by page.
func withPage(cmd *cobra.Command, p *client.Page) *cobra.Command {
	cmd.Flags().IntVar(&p.Limit, "limit", 20, "how many to print")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if p.Limit < 1 || p.Limit > maxListed {
			return fault.New(fault.Invalid, "--limit has to be a number from 1 to %d.", maxListed)
		}
		return nil
	}
	cmd.Flags().StringVar(&p.Before, "before", "", "only what is older than this `id`, or what follows where a list says that it goes on")
	return cmd
}
