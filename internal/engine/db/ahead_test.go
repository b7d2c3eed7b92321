package db_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"lilac/internal/engine/db"
)

// Announced reads return what they would return without the announcement, whatever is read,
// written, and rolled back around them. Each closure announces at random, for itself and for the
// next one, and compares with an account of the rows.
func TestAnnouncedReadsSeeEveryWrite(t *testing.T) {
	d := open(t, t.TempDir())
	random := rand.New(rand.NewPCG(1, 2))
	rows := map[string]int{}
	id := func() string { return fmt.Sprint(random.IntN(6)) }
	one := func(q db.Queryer, id string) (n int, err error) {
		err = q.QueryRow("SELECT n FROM t WHERE id = ?", id).Scan(&n)
		return n, err
	}
	total := func(q db.Queryer) (n int, err error) {
		rows, err := q.Query("SELECT n FROM t ORDER BY id")
		if err != nil {
			return 0, err
		}
		defer rows.Close()
		for rows.Next() {
			var one int
			if err := rows.Scan(&one); err != nil {
				return 0, err
			}
			n += one
		}
		return n, rows.Err()
	}
	check := func(q db.Queryer, rows map[string]int, id string) error {
		n, err := one(q, id)
		if want, known := rows[id]; known != (err == nil) || err != nil && !errors.Is(err, db.ErrNoRows) || n != want {
			return fmt.Errorf("row %s is %d (%w), want %d", id, n, err, want)
		}
		sum := 0
		for _, n := range rows {
			sum += n
		}
		if n, err := total(q); err != nil || n != sum {
			return fmt.Errorf("the sum is %d (%w), want %d", n, err, sum)
		}
		return nil
	}
	refused := errors.New("refused")
	for range 200 {
		fails := random.IntN(4) == 0
		foreseen := id()
		var next map[string]int
		var foresight *db.Foresight
		err := d.Update(t.Context(), func(tx *db.Tx) error {
			next, foresight = map[string]int{}, nil // the closure may run twice
			for k, v := range rows {
				next[k] = v
			}
			for range 6 {
				a, b := id(), id()
				switch random.IntN(6) {
				case 0:
					tx.Ahead(func(tx *db.Tx) {
						_, _ = one(tx, a)
						_, _ = total(tx)
						if _, err := tx.Exec("DELETE FROM t"); err != nil {
							t.Error(err)
						}
					})
				case 1:
					n := random.IntN(100)
					if _, err := tx.Exec("INSERT INTO t (id, n) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET n = excluded.n", b, n); err != nil {
						return err
					}
					next[b] = n
				case 2:
					if _, err := tx.ExecExpecting(1, "DELETE FROM t WHERE id = ?", b); err != nil {
						return err
					}
					delete(next, b)
				case 3:
					tx.AheadOfNext(func(tx *db.Tx) {
						_, _ = one(tx, a)
						_, _ = total(tx)
					})
				case 4:
					foresight = tx.Foresee(func(tx *db.Tx) {
						_, _ = one(tx, foreseen)
						_, _ = total(tx)
					})
				}
				if err := check(tx, next, a); err != nil {
					return err
				}
			}
			if fails {
				return refused
			}
			return nil
		})
		if fails && !errors.Is(err, refused) || !fails && err != nil {
			t.Fatal(err)
		}
		if !fails {
			rows = next
		}
		err = foresight.Read(t.Context(), d, func(q db.Queryer) error { return check(q, rows, foreseen) })
		if err != nil {
			t.Fatal(err)
		}
		err = d.Read(t.Context(), func(q db.Queryer) error {
			a := id()
			db.Ahead(q, func(q db.Queryer) {
				_, _ = one(q, a)
				_, _ = total(q)
			})
			return check(q, rows, a)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A sequence continues with the stored number, and counts its own rows without reading again.
func TestNextContinuesASequence(t *testing.T) {
	d := open(t, t.TempDir())
	next := func(tx *db.Tx) (int64, error) { return tx.Next("t", "SELECT coalesce(max(n), 0) FROM t") }
	for want := int64(1); want < 7; want += 2 {
		err := d.Update(t.Context(), func(tx *db.Tx) error {
			tx.Ahead(func(tx *db.Tx) { _, _ = next(tx) })
			for i := range int64(2) {
				n, err := next(tx)
				if err != nil || n != want+i {
					return fmt.Errorf("the next number is %d (%w), want %d", n, err, want+i)
				}
				if _, err := tx.Exec("INSERT INTO t (id, n) VALUES (?, ?)", fmt.Sprint(n), n); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
