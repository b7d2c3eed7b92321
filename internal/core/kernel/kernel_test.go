package kernel_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"lilac/internal/core/kernel"
	"lilac/internal/engine/db"
	"lilac/internal/testkit/dbtest"
)

var migrations = []db.Migration{{Name: "kernel-test", SQL: "CREATE TABLE counter (name TEXT PRIMARY KEY, value INTEGER NOT NULL); CREATE TABLE note (text TEXT NOT NULL);"}}

type WriteNote struct{ text string }

// counters is a core whose state is a number and whose effects write rows. It
// records the order of the steps and fails at the step failAt.
type counters struct {
	steps  []string
	failAt string
}

var errStep = errors.New("the step fails")

func (c *counters) step(name string) error {
	c.steps = append(c.steps, name)
	if name == c.failAt {
		return errStep
	}
	return nil
}

func (c *counters) core() kernel.Core[string, int, int, WriteNote] {
	return kernel.Core[string, int, int, WriteNote]{
		Load: func(tx *db.Tx, key string) (n int, err error) {
			if err := c.step("load"); err != nil {
				return 0, err
			}
			err = tx.QueryRow("SELECT coalesce(max(value), 0) FROM counter WHERE name = ?", key).Scan(&n)
			return n, err
		},
		Decide: func(n, add int, _ time.Time) (int, []WriteNote) {
			_ = c.step("decide")
			return n + add, []WriteNote{{"first"}, {"second"}}
		},
		Save: func(tx *db.Tx, key string, before, after int) error {
			if err := c.step(fmt.Sprintf("save %d to %d", before, after)); err != nil {
				return err
			}
			_, err := tx.Exec("INSERT INTO counter VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value", key, after)
			return err
		},
		Carry: func(tx *db.Tx, _ string, after int, e WriteNote) error {
			if _, err := tx.Exec("INSERT INTO note VALUES (?)", e.text); err != nil {
				return err
			}
			return c.step(fmt.Sprintf("carry out %s at %d", e.text, after))
		},
		Wake: func(_ string, before, after int) { _ = c.step(fmt.Sprintf("wake %d to %d", before, after)) },
	}
}

func open(t *testing.T) *db.DB {
	t.Helper()
	database, err := db.Open(t.Context(), dbtest.Options(db.Options{Dir: t.TempDir(), Migrations: migrations}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = database.Close() })
	return database
}

// stored returns what the database holds: the counter and the number of notes.
func stored(t *testing.T, database *db.DB) (value, notes int) {
	t.Helper()
	if err := database.Read(t.Context(), func(q db.Queryer) error {
		if err := q.QueryRow("SELECT coalesce(max(value), 0) FROM counter").Scan(&value); err != nil {
			return err
		}
		return q.QueryRow("SELECT count(*) FROM note").Scan(&notes)
	}); err != nil {
		t.Fatal(err)
	}
	return value, notes
}

func TestApplyRunsTheStepsInOrderAndWakesAfterTheCommit(t *testing.T) {
	database, c := open(t), &counters{}
	for range 2 {
		if err := database.Update(t.Context(), func(tx *db.Tx) error {
			after, effects, err := c.core().Apply(tx, "a", 3)
			if err == nil && (after != 3 && after != 6 || len(effects) != 2) {
				t.Errorf("Apply returns %d and %v", after, effects)
			}
			c.steps = append(c.steps, "end of the transaction")
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{
		"load", "decide", "save 0 to 3", "carry out first at 3", "carry out second at 3", "end of the transaction", "wake 0 to 3",
		"load", "decide", "save 3 to 6", "carry out first at 6", "carry out second at 6", "end of the transaction", "wake 3 to 6",
	}
	if !slices.Equal(c.steps, want) {
		t.Errorf("the steps were\n%s\nwant\n%s", strings.Join(c.steps, "\n"), strings.Join(want, "\n"))
	}
	if value, notes := stored(t, database); value != 6 || notes != 4 {
		t.Errorf("stored: %d and %d notes, want 6 and 4", value, notes)
	}
}

func TestAnErrorOfAnyStepUndoesTheWholeDecision(t *testing.T) {
	for _, failAt := range []string{"load", "save 0 to 3", "carry out first at 3", "carry out second at 3", "control: no step"} {
		t.Run(failAt, func(t *testing.T) {
			database, c := open(t), &counters{failAt: failAt}
			err := database.Update(t.Context(), func(tx *db.Tx) error {
				_, _, err := c.core().Apply(tx, "a", 3)
				return err
			})
			value, notes := stored(t, database)
			woke := slices.ContainsFunc(c.steps, func(s string) bool { return strings.HasPrefix(s, "wake") })
			if strings.HasPrefix(failAt, "control") {
				if err != nil || value != 3 || notes != 2 || !woke {
					t.Errorf("%v; stored: %d and %d notes; woke: %t", err, value, notes, woke)
				}
				return
			}
			if !errors.Is(err, errStep) || value != 0 || notes != 0 || woke {
				t.Errorf("error %v, want %v; stored: %d and %d notes, want none; woke: %t", err, errStep, value, notes, woke)
			}
			if want := "kernel_test: write note: " + errStep.Error(); strings.HasPrefix(failAt, "carry out") && err.Error() != want {
				t.Errorf("the error reads %q, want %q", err, want)
			}
		})
	}
}

func TestATransactionThatFailsLaterWakesNobody(t *testing.T) {
	database, c := open(t), &counters{}
	err := database.Update(t.Context(), func(tx *db.Tx) error {
		if _, _, err := c.core().ApplyTo(tx, "a", 1, 3); err != nil {
			return err
		}
		return errStep
	})
	if value, notes := stored(t, database); !errors.Is(err, errStep) || value != 0 || notes != 0 {
		t.Errorf("error %v; stored: %d and %d notes, want none", err, value, notes)
	}
	if last := c.steps[len(c.steps)-1]; last != "carry out second at 4" || c.steps[0] != "decide" {
		t.Errorf("the steps were %q, want neither load nor wake", c.steps)
	}
}

func TestACoreWithoutWakeCommits(t *testing.T) {
	database, c := open(t), &counters{}
	core := c.core()
	core.Wake = nil
	if err := database.Update(t.Context(), func(tx *db.Tx) error {
		_, _, err := core.Apply(tx, "a", 2)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if value, _ := stored(t, database); value != 2 {
		t.Errorf("stored: %d, want 2", value)
	}
}
