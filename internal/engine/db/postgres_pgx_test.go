package db_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"lilac/internal/engine/db"
	"lilac/internal/testkit/postgrestest"
)

// BenchmarkEngineAndPgx reports the speed of the engine as a share of the speed of pgx with the
// same statements, in the same run.
func BenchmarkEngineAndPgx(b *testing.B) {
	s := startPostgres(b)
	d, err := onServer(b, s.Addr(), "one", nil)
	if err != nil {
		b.Fatal(err)
	}
	ctx := b.Context()
	if err := s.Do("CREATE SCHEMA two; CREATE TABLE two.t (id TEXT PRIMARY KEY); CREATE TABLE two.writers (w BIGINT PRIMARY KEY, last BIGINT, claimed BIGINT); INSERT INTO two.writers VALUES (0, 0, 0)"); err != nil {
		b.Fatal(err)
	}
	c, err := pgx.Connect(ctx, postgrestest.URLAt(s.Addr(), "two"))
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close(context.Background())
	const commits = 200
	var ours, theirs time.Duration
	number := int64(0)
	for round := 0; b.Loop(); round++ {
		began := time.Now()
		for i := range commits {
			id := idOf(round, i)
			err := d.Update(ctx, func(tx *db.Tx) error {
				var n int64
				if err := tx.QueryRow("SELECT count(*) FROM t WHERE id = ?", id).Scan(&n); err != nil {
					return err
				}
				return insert(tx, id)
			})
			if err != nil {
				b.Fatal(err)
			}
		}
		ours += time.Since(began)
		began = time.Now()
		for i := range commits {
			id := idOf(round, i)
			number++
			if err := withPgx(ctx, c, id, number); err != nil {
				b.Fatal(err)
			}
		}
		theirs += time.Since(began)
	}
	b.ReportMetric(theirs.Seconds()/ours.Seconds(), "of-pgx")
}

func idOf(round, i int) string { return fmt.Sprint(round, "/", i) }

// withPgx does the same as the engine, with the fewest round trips that pgx needs: one batch for
// the read and one for the writes.
func withPgx(ctx context.Context, c *pgx.Conn, id string, number int64) error {
	var n int64
	read := &pgx.Batch{}
	read.Queue("BEGIN")
	read.Queue("SELECT count(*) FROM t WHERE id = $1", id).QueryRow(func(row pgx.Row) error { return row.Scan(&n) })
	if err := c.SendBatch(ctx, read).Close(); err != nil {
		return err
	}
	write := &pgx.Batch{}
	write.Queue("INSERT INTO t (id) VALUES ($1)", id)
	write.Queue("UPDATE writers SET last = $1, claimed = $2 WHERE w = 0", number, number)
	write.Queue("COMMIT")
	return c.SendBatch(ctx, write).Close()
}
