package cli

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/text"
	"lilac/internal/operate/backup"
)

func backupCommand(c *cli) *cobra.Command {
	return c.withJSON(&cobra.Command{
		Use:   "backup FILE",
		Short: "Back up the database and files, also while the server runs",
		Long: "Writes a snapshot of the database and the stored files to a new file that only you can read, and\n" +
			"verifies the file. The server can keep running. The backup does not contain the token, the\n" +
			"configuration or the workspace.",
		Example: "  lilac backup /backups/lilac-$(date +%F).tar.gz\n  lilac backup lilac.tar.gz --data /var/lib/lilac/data",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] == "-" { // other commands use it for standard output
				return fault.New(fault.Invalid, "A backup cannot be written to standard output, because it is verified after it is written. Name a file.")
			}
			at, err := c.locate()
			if err != nil {
				return err
			}
			if at.Database.Postgres() {
				return fault.New(fault.Invalid, "The database is on PostgreSQL, which has its own tools: save it with \"pg_dump --format=custom --file=lilac.dump\" and the URL, then save %s/blobs with tar. docs/operations.md shows how.", at.DataDir)
			}
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			m, err := backup.Write(ctx, at.DataDir, args[0], c.versionString(), time.Now())
			if err != nil {
				return err
			}
			return c.printBackup(m, fmt.Sprintf("%s is a backup of %s", args[0], at.DataDir))
		},
	})
}

func restoreCommand(c *cli) *cobra.Command {
	var check bool
	cmd := c.withJSON(&cobra.Command{
		Use:   "restore FILE",
		Short: "Restore a data directory from a backup",
		Long: "Verifies the backup and restores it to the data directory, which must be empty. Requests that\n" +
			"were running at the time of the backup resume at the next start.",
		Example: "  lilac restore lilac.tar.gz --data /var/lib/lilac/data\n  lilac restore lilac.tar.gz --check    # only verify the backup",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			if check {
				m, err := backup.Verify(ctx, args[0])
				if err != nil {
					return err
				}
				return c.printBackup(m, args[0]+" is valid")
			}
			at, err := c.locate()
			if err != nil {
				return err
			}
			m, err := backup.Restore(ctx, args[0], at.DataDir)
			if err != nil {
				return err
			}
			return c.printBackup(m, fmt.Sprintf("%s was restored from %s", at.DataDir, filepath.Base(args[0])))
		},
	})
	cmd.Flags().BoolVar(&check, "check", false, "only verify the backup")
	return cmd
}

func (p *printer) printBackup(m backup.Manifest, what string) error {
	bad := m.Damaged()
	if p.json {
		err := p.printJSON(map[string]any{"made": m.Made, "version": m.Version, "storeId": m.StoreID, "files": len(m.Entries), "bytes": m.Bytes(), "damaged": append([]string{}, bad...), "unread": append([]string{}, m.Unread...)})
		return errors.Join(err, damagedFiles(bad), unreadDirs(m.Unread))
	}
	verified := "all verified"
	if len(bad)+len(m.Unread) > 0 {
		verified = "some damaged or missing"
	}
	_, err := fmt.Fprintf(p.out, "%s: store %s at %s, database and %d stored files, %d KiB, %s.\n",
		text.Sanitize(what), m.StoreID, m.Made.Local().Format(time.DateTime), len(m.Entries)-1, m.Bytes()>>10, verified)
	return errors.Join(err, damagedFiles(bad), unreadDirs(m.Unread))
}

// unreadDirs returns the error of a backup that lacks files, because some directories
// could not be read.
func unreadDirs(names []string) error {
	if len(names) == 0 {
		return nil
	}
	return fault.New(fault.Internal, "The backup is incomplete: directories of stored files could not be read: %s. Everything else is valid. Look for the missing files in an older backup.",
		text.SingleLine(strings.Join(names, ", ")))
}

// damagedFiles returns the error of a backup of files that were already damaged. The
// backup is usable.
func damagedFiles(names []string) error {
	if len(names) == 0 {
		return nil
	}
	return fault.New(fault.Internal, "%d stored files were already damaged, the first is %s. The backup contains them unchanged; everything else is valid. Look for intact copies in an older backup.", len(names), names[0])
}
