package db_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"lilac/internal/engine/db"
	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/postgrestest"
)

// leastOfPgx is the least share of the speed of pgx that the engine reaches.
const leastOfPgx = 0.8

// The engine is about as fast as pgx with the same statements, in the same run. It runs only in the
// long form, which has the machine for itself: LILAC_LONG=1 go test ./internal/engine/db -run Pgx -v
func TestTheEngineKeepsUpWithPgx(t *testing.T) {
	if !effort.Long() {
		t.Skip("it measures times; LILAC_LONG=1 runs it")
	}
	s := startPostgres(t)
	d, err := onServer(t, s.Addr(), "one", nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if err := s.Do("CREATE SCHEMA two; CREATE TABLE two.t (id TEXT PRIMARY KEY); CREATE TABLE two.writers (w BIGINT PRIMARY KEY, last BIGINT, claimed BIGINT); INSERT INTO two.writers VALUES (0, 0, 0)"); err != nil {
		t.Fatal(err)
	}
	c, err := pgx.Connect(ctx, postgrestest.URLAt(s.Addr(), "two"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	const rounds, commits = 20, 200
	var ours, theirs time.Duration
	number := int64(0)
	for round := range rounds {
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
				t.Fatal(err)
			}
		}
		ours += time.Since(began)
		began = time.Now()
		for i := range commits {
			id := idOf(round, i)
			number++
			if err := withPgx(ctx, c, id, number); err != nil {
				t.Fatal(err)
			}
		}
		theirs += time.Since(began)
	}
	share := theirs.Seconds() / ours.Seconds()
	t.Logf("%d commits: %s, with pgx %s; %.2f of its speed", rounds*commits, ours.Round(time.Millisecond), theirs.Round(time.Millisecond), share)
	if share < leastOfPgx {
		t.Errorf("%.2f of the speed of pgx, want %.2f", share, leastOfPgx)
	}
}

func idOf(round, i int) string { return string(rune('a'+round)) + time.Duration(i).String() }

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
