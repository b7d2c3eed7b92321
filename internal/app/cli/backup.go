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

func (c *cli) backup() *cobra.Command {
	return c.withJSON(&cobra.Command{
		Use:   "backup FILE",
		Short: "Write a backup into one file, also while the server runs",
		Long: "Writes the database as it is at one moment, and the stored files, into a new file that only you\n" +
			"can read, and reads it again to see that it is whole. The server need not stop. The token, the\n" +
			"configuration and the workspace are not in it.",
		Example: "  lilac backup /backups/lilac-$(date +%F).tar.gz\n  lilac backup lilac.tar.gz --data /var/lib/lilac/data",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] == "-" { // elsewhere it means standard output
				return fault.New(fault.Invalid, "A backup is written into a file, which is read again; it cannot go to standard output. Give the file a name.")
			}
			at, err := c.locate()
			if err != nil {
				return err
			}
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			m, err := backup.Write(ctx, at.DataDir, args[0], c.versionString(), time.Now())
			if err != nil {
				return err
			}
			return c.printBackup(m, fmt.Sprintf("%s holds %s", args[0], at.DataDir))
		},
	})
}

func (c *cli) restore() *cobra.Command {
	var check bool
	cmd := c.withJSON(&cobra.Command{
		Use:   "restore FILE",
		Short: "Make a data directory out of a backup",
		Long: "Verifies the backup and writes it into the data directory, which must be empty. Requests that ran\n" +
			"when the backup was made go on at the next start.",
		Example: "  lilac restore lilac.tar.gz --data /var/lib/lilac/data\n  lilac restore lilac.tar.gz --check    # only look whether it is whole",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			if check {
				m, err := backup.Verify(ctx, args[0])
				if err != nil {
					return err
				}
				return c.printBackup(m, args[0]+" is whole")
			}
			at, err := c.locate()
			if err != nil {
				return err
			}
			m, err := backup.Restore(ctx, args[0], at.DataDir)
			if err != nil {
				return err
			}
			return c.printBackup(m, fmt.Sprintf("%s was made out of %s", at.DataDir, filepath.Base(args[0])))
		},
	})
	cmd.Flags().BoolVar(&check, "check", false, "verify the backup and restore nothing")
	return cmd
}

func (c *cli) printBackup(m backup.Manifest, what string) error {
	bad := m.Damaged()
	if c.json {
		err := c.printJSON(map[string]any{"made": m.Made, "version": m.Version, "storeId": m.StoreID, "files": len(m.Entries), "bytes": m.Bytes(), "damaged": append([]string{}, bad...), "unread": append([]string{}, m.Unread...)})
		return errors.Join(err, damagedFiles(bad), unreadDirs(m.Unread))
	}
	verified := "all verified"
	if len(bad)+len(m.Unread) > 0 {
		verified = "not all whole"
	}
	_, err := fmt.Fprintf(c.out, "%s: store %s as of %s, the database and %d stored files, %d KiB, %s.\n",
		text.Sanitize(what), m.StoreID, m.Made.Local().Format(time.DateTime), len(m.Entries)-1, m.Bytes()>>10, verified)
	return errors.Join(err, damagedFiles(bad), unreadDirs(m.Unread))
}

// unreadDirs is the error of a backup that lacks what nobody could find when it was
// made.
func unreadDirs(names []string) error {
	if len(names) == 0 {
		return nil
	}
	return fault.New(fault.Internal, "Directories of stored files could not be read when the backup was made, so it lacks files that are in them: %s. The rest is whole. Look for what is missing in an older backup.",
		text.SingleLine(strings.Join(names, ", ")))
}

// damagedFiles is the error of a backup that holds what was damaged before. There
// is no better one to be had: the rest of it is whole, and it can be used.
func damagedFiles(names []string) error {
	if len(names) == 0 {
		return nil
	}
	return fault.New(fault.Internal, "Of the stored files %d had been damaged before the backup was made, the first: %s. What is damaged was taken over as it is, and the rest is whole. Look for it in an older backup.", len(names), names[0])
}
