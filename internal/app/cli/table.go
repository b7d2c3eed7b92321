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

// table prints rows in columns below a header.
func (p *printer) table(head string, rows [][]string) error {
	w := tabwriter.NewWriter(p.out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, strings.ReplaceAll(head, " ", "\t"))
	for _, row := range rows {
		for i, cell := range row {
			most := 72
			if i == len(row)-1 {
				most = 200 // nothing stands to its right: the reason of a trouble fits
			}
			row[i] = text.TruncateRunes(oneLine(cell), most)
		}
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("print table: %w", err)
	}
	return nil
}

// page prints a page of a list as a table, and on standard error how to get the next.
func (p *printer) page(head string, rows [][]string, next string) error {
	if err := p.table(head, rows); err != nil || next == "" {
		return err
	}
	fmt.Fprintf(p.err, "For older entries, use --before %s\n", oneLine(next))
	return nil
}

// when formats Unix milliseconds.
func when(ms int64) string {
	if ms == 0 {
		return "-"
	}
	return time.UnixMilli(ms).Format("2006-01-02 15:04:05")
}

// dollars formats millionths of a US dollar.
func dollars(micros int64) string {
	if micros == 0 {
		return "-"
	}
	return fmt.Sprintf("$%.4f", float64(micros)/1e6)
}

// maxListed is the largest page of the server.
const maxListed = 1000

// withPage adds the paging flags to a list.
func withPage(cmd *cobra.Command, p *client.Page) *cobra.Command {
	cmd.Flags().IntVar(&p.Limit, "limit", 20, "maximum `number` of entries")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if p.Limit < 1 || p.Limit > maxListed {
			return fault.New(fault.Invalid, "--limit must be a number from 1 to %d.", maxListed)
		}
		return nil
	}
	cmd.Flags().StringVar(&p.Before, "before", "", "only entries older than this `id`, or the value that the previous page printed")
	return cmd
}
