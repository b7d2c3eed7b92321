package store_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/core/outbox"
	"lilac/internal/core/relay"
	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
	"lilac/internal/store"
	"lilac/internal/surfaces/discord"
)

func TestGapsOfOneChannelBecomeOneThatHoldsBoth(t *testing.T) {
	d, _ := open(t)
	table := store.Discord{}
	update(t, d, func(tx *db.Tx) error {
		for _, g := range []discord.Gap{{ChannelID: "7", After: "100", Until: "200"}, {ChannelID: "7", After: "99", Until: "150"}, {ChannelID: "8", After: "5"}, {ChannelID: "8", After: "6", Until: "9"}} {
			if err := table.OpenGap(tx, g); err != nil {
				return err
			}
		}
		return nil
	})
	gaps := func() (out []discord.Gap) {
		if err := read(t, d, func(q db.Queryer) (err error) { out, err = table.Gaps(q, 10); return err }); err != nil {
			t.Fatal(err)
		}
		return out
	}
	want := []discord.Gap{{ChannelID: "7", After: "99", Until: "200", Opened: 2}, {ChannelID: "8", After: "5", Opened: 2}}
	if diff := cmp.Diff(want, gaps()); diff != "" {
		t.Error(diff)
	}
	update(t, d, func(tx *db.Tx) error { return table.CloseGap(tx, want[0]) })
	if got := gaps(); len(got) != 1 {
		t.Errorf("left: %v", got)
	}
}

// CloseGap closes the parts of a gap one by one. It closes nothing if the gap has grown
// since it was read.
func TestAGapThatGrowsWhileItIsReadStays(t *testing.T) {
	d, _ := open(t)
	table := store.Discord{}
	open := func(g discord.Gap) {
		update(t, d, func(tx *db.Tx) error { return table.OpenGap(tx, g) })
	}
	left := func() (out discord.Gap) {
		if err := read(t, d, func(q db.Queryer) error {
			gaps, err := table.Gaps(q, 10)
			if len(gaps) > 0 {
				out = gaps[0]
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return out
	}
	closed := func(g discord.Gap) { update(t, d, func(tx *db.Tx) error { return table.CloseGap(tx, g) }) }
	open(discord.Gap{ChannelID: "7", After: "100", Until: "200"})
	open(discord.Gap{ChannelID: "7", Threads: 50})
	open(discord.Gap{ChannelID: "7", Threads: 60})
	old := left()
	if diff := cmp.Diff(discord.Gap{ChannelID: "7", After: "100", Until: "200", Threads: 50, Opened: 3}, old); diff != "" {
		t.Error(diff)
	}
	open(discord.Gap{ChannelID: "7", After: "150", Until: "300"})
	closed(old.Messages())
	if got := left(); got.After != "100" || got.Until != "300" {
		t.Errorf("a gap that has grown is %+v", got)
	}
	grown := left()
	closed(grown.Messages())
	if got := left(); got.After != "" || got.Threads != 50 {
		t.Errorf("after its messages were read it is %+v", got)
	}
	closed(grown.Archived())
	if got := left(); got.ChannelID != "" {
		t.Errorf("left: %+v", got)
	}
}

func TestAnAnswerIsKnownByItsNonceBeforeItIsConfirmed(t *testing.T) {
	d, _ := open(t)
	for key, want := range map[string]string{
		relay.HookName + ":discord:7:1:0.0~0": "discord:7:1",
		"callables:discord:7:1:x":             "", // messages that tools send are not part of an answer
	} {
		row := outbox.Row{Key: key, Platform: "discord", State: outbox.Planned, RequestID: "discord:7:1", Send: surface.Send{ChannelID: "7", Nonce: key[:4]}}
		update(t, d, func(tx *db.Tx) error {
			_, err := store.Outbox{}.Plan(tx, row)
			return err
		})
		if err := read(t, d, func(q db.Queryer) error {
			for nonce, want := range map[string]string{row.Send.Nonce: want, "none": ""} {
				if got, err := (store.Discord{}).AnsweredRequest(q, "7", nonce); err != nil || got != want {
					t.Errorf("%s, nonce %s: %q, %v, want %q", key, nonce, got, err, want)
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWhatIsPlannedIsFoundByItsNonceAndItsMessage(t *testing.T) {
	d, _ := open(t)
	table := store.Discord{}
	row := outbox.Row{Key: "k", Platform: "discord", State: outbox.Planned, Send: surface.Send{ChannelID: "7", Nonce: "n", Content: surface.Content{Text: "hi"}}}
	update(t, d, func(tx *db.Tx) error {
		_, err := store.Outbox{}.Plan(tx, row)
		return err
	})
	look := func(nonce, message string) (planned bool, kind fault.Kind) {
		if err := read(t, d, func(q db.Queryer) (err error) {
			_, err = table.PlannedSend(q, "7", nonce)
			kind = fault.KindOf(err)
			planned, err = table.IsPlanned(q, "7", message, nonce)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return planned, kind
	}
	if planned, kind := look("n", "1"); !planned || kind != "" {
		t.Errorf("what is planned: %v, %q", planned, kind)
	}
	if planned, kind := look("other", "1"); planned || kind != fault.NotFound {
		t.Errorf("what is not: %v, %q", planned, kind)
	}
	row.State, row.MessageID = outbox.Sent, "9"
	update(t, d, func(tx *db.Tx) error { return store.Outbox{}.Save(tx, row) })
	if planned, kind := look("", "9"); !planned || kind != fault.NotFound {
		t.Errorf("what was sent: %v, %q", planned, kind)
	}
}
