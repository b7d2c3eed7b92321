package store_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"lilac/internal/core/outbox"
	"lilac/internal/core/router"
	"lilac/internal/core/session"
	"lilac/internal/core/surface"
	"lilac/internal/core/workflow"
	"lilac/internal/engine/db"
	"lilac/internal/store"
	"lilac/internal/surfaces/discord"
)

func TestSessionsAreForgottenByAgeAndBeyondANumberButNotWhatIsNeeded(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	d, s := openAt(t, &now)
	c := store.SurfaceCache{}
	tell := func(kind surface.ChannelKind, ids ...string) {
		t.Helper()
		update(t, d, func(tx *db.Tx) error {
			for _, id := range ids {
				if err := c.PutSession(tx, surface.Session{Platform: "discord", ChannelID: id, GuildID: "g", Kind: kind, Title: "t" + id}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	left := func() []string { return remembered(t, d) }
	trim := func(most int) {
		t.Helper()
		update(t, d, func(tx *db.Tx) error {
			_, err := c.TrimSessions(tx, "discord", now.Add(-180*24*time.Hour), most, []string{"kept"})
			return err
		})
	}
	needed := []string{"active", "burst", "gap", "kept", "outbox", "said", "schedule", "reply"}
	tell(surface.Channel, "channel")
	tell(surface.Thread, append([]string{"thread", "ended"}, needed...)...)
	tell(surface.Direct, "dm")
	update(t, d, func(tx *db.Tx) error {
		_, planErr := store.Outbox{}.Plan(tx, outbox.Row{Key: "k", Platform: "discord", Send: surface.Send{ChannelID: "outbox", Nonce: "n"}, State: outbox.Planned})
		return errors.Join(
			planErr,
			c.PutMessage(tx, surface.Message{Platform: "discord", ChannelID: "said", ID: "1", Text: "hello"}),
			s.Discord.OpenGap(tx, discord.Gap{ChannelID: "gap", After: "1"}),
			s.States.SaveState(tx, "active", session.State{Active: &session.Active{RequestID: "discord:active:1"}}),
			s.States.SaveState(tx, "ended", session.State{}),
			s.RouterStates.SaveRouterState(tx, "discord", "burst", router.State{Buffer: []string{"1"}, Due: 1}),
			s.Workflows.SaveWorkflow(tx, workflow.Workflow{ID: "w1", Origin: workflow.Origin{SessionID: "schedule"}, State: workflow.Waiting}),
			s.Workflows.SaveWorkflow(tx, workflow.Workflow{ID: "w2", State: workflow.Waiting, Tasks: []workflow.Task{
				{ID: "t1", State: workflow.Waiting, Wait: workflow.Wait{Kind: workflow.ForReply, Platform: "discord", ChannelID: "reply", MessageID: "1"}},
			}}),
		)
	})
	now = now.Add(200 * 24 * time.Hour)
	tell(surface.Thread, "new")
	trim(100)
	want := slices.Sorted(slices.Values(append([]string{"channel", "dm", "new"}, needed...)))
	if got := left(); !slices.Equal(got, want) {
		t.Errorf("by age %q are left, want %q", got, want)
	}
	trim(len(want) - 1)
	if got := left(); slices.Contains(got, "dm") || len(got) != len(want)-1 {
		t.Errorf("beyond the number %q are left", got)
	}
	trim(1)
	if got, want := left(), slices.Sorted(slices.Values(append([]string{"channel"}, needed...))); !slices.Equal(got, want) {
		t.Errorf("beyond a small number %q are left, want %q", got, want)
	}
	// Control: without pending work and cached messages, the sessions are deleted.
	update(t, d, func(tx *db.Tx) error {
		var err error
		for _, table := range []string{`surface_messages`, `session_state`, `router_state`, `outbox`, `workflows`, `workflow_waits`, `discord_gaps`} {
			_, failed := tx.Exec(`DELETE FROM ` + table)
			err = errors.Join(err, failed)
		}
		return err
	})
	trim(1)
	if got := left(); !slices.Equal(got, []string{"channel", "kept"}) {
		t.Errorf("nothing is needed and %q are left", got)
	}
}

// The migration fills in the title keys of sessions of an older database.
func TestTitlesOfSessionsFromBeforeAreFound(t *testing.T) {
	before := slices.IndexFunc(store.Migrations, func(m db.Migration) bool { return m.Name == "surface.0004-sessions" })
	dir := t.TempDir()
	reopen := func(migrations []db.Migration, do func(d *db.DB)) {
		t.Helper()
		d, err := db.Open(t.Context(), db.Options{Dir: dir, Migrations: migrations})
		if err != nil {
			t.Fatal(err)
		}
		do(d)
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	reopen(store.Migrations[:before], func(d *db.DB) {
		update(t, d, func(tx *db.Tx) error {
			_, err := tx.Exec(`INSERT INTO surface_sessions (platform, channel_id, updated_at, json) VALUES
				('discord', '1', 0, CAST('{"platform":"discord","channelId":"1","kind":"thread","title":"#Ä-Team"}' AS BLOB)), ('discord', '2', 0, CAST('{"platform":"discord","channelId":"2","kind":"dm"}' AS BLOB))`)
			return err
		})
	})
	reopen(store.Migrations, func(d *db.DB) {
		for title, want := range map[string]int{"ä-team": 1, "#Ä-TEAM": 1, "": 0, "team": 0} {
			if err := read(t, d, func(q db.Queryer) error {
				found, err := store.SurfaceCache{}.SessionsTitled(q, "discord", title)
				if len(found) != want {
					t.Errorf("%q finds %+v", title, found)
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
		update(t, d, func(tx *db.Tx) error {
			more, err := store.SurfaceCache{}.TrimSessions(tx, "discord", tx.Now().Add(time.Hour), 10, nil)
			if more {
				t.Error("there is more")
			}
			return err
		})
		if err := read(t, d, func(q db.Queryer) error {
			all, err := store.SurfaceCache{}.Sessions(q, "discord")
			if len(all) != 1 || all[0].ChannelID != "2" {
				t.Errorf("left %+v", all)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	})
}
