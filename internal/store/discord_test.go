package store_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/db"
	"lilac/internal/discord"
	"lilac/internal/fault"
	"lilac/internal/outbox"
	"lilac/internal/store"
	"lilac/internal/surface"
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
	if diff := cmp.Diff([]discord.Gap{{ChannelID: "7", After: "99", Until: "200"}, {ChannelID: "8", After: "5"}}, gaps()); diff != "" {
		t.Error(diff)
	}
	update(t, d, func(tx *db.Tx) error { return table.CloseGap(tx, "7") })
	if got := gaps(); len(got) != 1 {
		t.Errorf("left: %v", got)
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
			planned, err = table.Planned(q, "7", message, nonce)
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
