package pairing_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"lilac/internal/core/pairing"
	"lilac/internal/engine/db"
	"lilac/internal/store"
	"lilac/internal/testkit/dbtest"
)

// However many strangers write, in whatever time, the table has room for few of them.
func TestStrangersAreBounded(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	database, err := db.Open(t.Context(), dbtest.Options(db.Options{Dir: t.TempDir(), Migrations: store.Migrations, Now: func() time.Time { return now }}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = database.Close() })
	s := pairing.New(pairing.Options{
		Platform: "discord", DB: database, Table: store.Pairings{}, Random: func(b []byte) { copy(b, "12345678") },
		Tell: func(context.Context, string, string, string) error { return nil },
	})
	knock := func(week string, people int) (out []pairing.Row) {
		t.Helper()
		err := database.Update(t.Context(), func(tx *db.Tx) error {
			for i := range people {
				if err := s.Knock(tx, fmt.Sprint(week, "-", i), "Ann"); err != nil {
					return err
				}
			}
			var err error
			out, err = store.Pairings{}.Pairings(tx, "discord")
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	for _, week := range []string{"a", "b", "c"} {
		if got := knock(week, pairing.MaxPending+20); len(got) != pairing.MaxPending {
			t.Errorf("week %s: %d rows, want %d", week, len(got), pairing.MaxPending)
		}
		now = now.Add(pairing.CodeTTL)
	}
	knock("d", 1)
	if _, err := s.Settle(t.Context(), "d-0", false); err != nil {
		t.Fatal(err)
	}
	now = now.Add(pairing.CodeTTL)
	if got := knock("e", 1); len(got) != 2 || got[1].State != pairing.Denied {
		t.Errorf("%+v remain, want a new stranger and the one whom the operator denied", got)
	}
}
