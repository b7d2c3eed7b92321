package app

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/store"
	"lilac/internal/surfaces/discord"
)

// A program that restarts within every hour still cleans up, but not during its start.
func TestItIsCleanedSoonAfterTheStartAndThenEveryHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		started := time.Now()
		ctx, stop := context.WithTimeout(t.Context(), 3*time.Hour)
		defer stop()
		var at []time.Duration
		if err := clean(ctx, func(context.Context) { at = append(at, time.Since(started)) }); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]time.Duration{2 * time.Minute, 62 * time.Minute, 122 * time.Minute}, at); diff != "" {
			t.Error(diff)
		}
	})
}

// The cache of a platform keeps to the configured age and size. Channels that the
// configuration names stay, and so do private conversations while there is space.
func TestWhatIsRememberedOfAPlatformIsBoundedAsItIsConfigured(t *testing.T) {
	const most = 1000
	r := start(t, fmt.Sprintf(`
surface: {discord: {cache: {age: 72h, messages: %d}}}
rules:
  ci: {when: {type: build.*}, do: {agent: {prompt: Look at it.}}, session: "77"}
`, most))
	r.p.platforms = append(r.p.platforms, &platform{adapter: openServer{}})
	r.store(func(tx *db.Tx) error {
		cache := store.SurfaceCache{}
		for id, kind := range map[string]surface.ChannelKind{
			"channel": surface.Channel, "old thread": surface.Thread, "77": surface.Thread, "new thread": surface.Thread, "old private": surface.Direct,
		} {
			if err := cache.PutSession(tx, surface.Session{Platform: discord.Platform, ChannelID: id, Kind: kind}); err != nil {
				return err
			}
		}
		for _, id := range []string{"old", "new"} {
			if err := cache.PutMessage(tx, surface.Message{Platform: discord.Platform, ChannelID: "channel", ID: id}); err != nil {
				return err
			}
			if err := cache.PutUser(tx, discord.Platform, surface.User{ID: id}); err != nil {
				return err
			}
		}
		at := func(age time.Duration) int64 { return tx.Now().Add(-age).UnixMilli() }
		for table, id := range map[string]string{"surface_sessions": "channel_id", "surface_messages": "id", "surface_users": "id"} {
			if _, err := tx.Exec(`UPDATE `+table+` SET at = CASE WHEN `+id+` LIKE 'new%' THEN ? ELSE ? END`, at(71*time.Hour), at(73*time.Hour)); err != nil {
				return err
			}
		}
		return nil
	})
	left := func(column, table string) (out []string) {
		t.Helper()
		err := r.p.db.Read(t.Context(), func(q db.Queryer) error {
			rows, err := q.Query(`SELECT ` + column + ` FROM ` + table)
			if err != nil {
				return err
			}
			defer rows.Close()
			for rows.Next() {
				var id string
				if err := rows.Scan(&id); err != nil {
					return err
				}
				out = append(out, id)
			}
			return rows.Err()
		})
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(out)
		return out
	}

	cleaner{r.p.base}.removeOld(t.Context())
	for _, now := range []struct {
		column, table string
		want          []string
	}{
		{"id", "surface_messages", []string{"new"}},
		{"id", "surface_users", []string{"new"}},
		{"channel_id", "surface_sessions", []string{"77", "channel", "new thread", "old private"}},
	} {
		if diff := cmp.Diff(now.want, left(now.column, now.table)); diff != "" {
			t.Errorf("%s: %s", now.table, diff)
		}
	}

	r.store(func(tx *db.Tx) error {
		for i := range most {
			if err := (store.SurfaceCache{}).PutSession(tx, surface.Session{Platform: discord.Platform, ChannelID: fmt.Sprintf("more %d", i), Kind: surface.Channel}); err != nil {
				return err
			}
		}
		return nil
	})
	cleaner{r.p.base}.removeOld(t.Context())
	got := left("channel_id", "surface_sessions")
	if len(got) != most+2 || !slices.Contains(got, "77") || !slices.Contains(got, "channel") {
		t.Errorf("beyond the number %d are left: %q …", len(got), got[:min(4, len(got))])
	}
}
