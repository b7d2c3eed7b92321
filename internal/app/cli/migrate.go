package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"lilac/internal/foundation/fault"
	"lilac/internal/operate/config"
	"lilac/internal/operate/migrate"
)

// showEvery is the interval of the lines that show how far a long command is.
const showEvery = time.Second

func migrateCommand(c *cli) *cobra.Command {
	var to, from string
	cmd := c.withJSON(&cobra.Command{
		Use:   "migrate (--to URL | --from URL)",
		Short: "Move all data between SQLite and PostgreSQL",
		Long: "Moves the data of the SQLite database in the data directory to a PostgreSQL database, or back, and\n" +
			"compares both by checksums. Stop the server first. The target must be empty. The source keeps its\n" +
			"rows, but Lilac refuses to start with it. Files stay in the data directory. If the command is\n" +
			"interrupted, run it again: it continues. Put the password into PGPASSWORD or a passfile, so that\n" +
			"other users of the machine do not see it.",
		Example: "  lilac migrate --to postgres://lilac@db.example.com/lilac\n  lilac migrate --from postgres://lilac@db.example.com/lilac --data /var/lib/lilac/data",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if (to == "") == (from == "") {
				return fault.New(fault.Invalid, "Name one direction: --to URL, or --from URL.")
			}
			url := config.DatabaseURL(to + from)
			if !url.Postgres() {
				return fault.New(fault.Invalid, "The URL %q is not one of PostgreSQL: postgres://user@host:5432/name.", url)
			}
			if err := config.CheckDatabaseURL("URL", url); err != nil {
				return err
			}
			at, err := c.locate()
			if err != nil {
				return err
			}
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			r, err := migrate.Move(ctx, migrate.Options{
				DataDir: at.DataDir, URL: url.Reveal(), Shown: url.String(), FromPostgres: from != "", Progress: c.showProgress(),
			})
			if err != nil {
				return err
			}
			if c.json {
				return c.printJSON(r)
			}
			next := "Set LILAC_DB_URL (or database.url) before you start the server."
			if from != "" {
				next = "Remove LILAC_DB_URL (and database.url) before you start the server."
			}
			_, err = fmt.Fprintf(c.out, "Moved store %s to %s: %d rows of %d tables, checksum %.16s on both sides.\n%s\n", r.StoreID, r.To, r.Rows, r.Tables, r.Checksum, next)
			return err
		},
	})
	cmd.Flags().StringVar(&to, "to", "", "move from the data directory to the PostgreSQL database at this `URL`")
	cmd.Flags().StringVar(&from, "from", "", "move from the PostgreSQL database at this `URL` to the data directory")
	return cmd
}

// showProgress returns a function that prints a line now and then.
func (p *printer) showProgress() func(step, table string, done, total int64) {
	var shown time.Time
	return func(step, table string, done, total int64) {
		if time.Since(shown) < showEvery {
			return
		}
		shown = time.Now()
		fmt.Fprintf(p.err, "%s %s: %d of %d rows\n", step, table, done, total)
	}
}
