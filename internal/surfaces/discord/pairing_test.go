package discord_test

import (
	"context"
	"crypto/rand"
	"slices"
	"strings"
	"testing"

	"lilac/internal/core/pairing"
	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/store"
	"lilac/internal/surfaces/discord"
	"lilac/internal/testkit/discordtest"
)

// A stranger's private message is not read. The stranger gets one code, and is heard once the
// operator has approved it, until the operator takes that back.
func TestAStrangerIsHeardAfterThePairing(t *testing.T) {
	w := newWorld(t, discordtest.Options{})
	var a *discord.Adapter
	var people *pairing.Service
	allowed := discord.Allowed{AllowedGuildIDs: []string{w.guild}}
	people = pairing.New(pairing.Options{
		Platform: discord.Platform, DB: w.db, Table: store.Pairings{}, Random: func(b []byte) { _, _ = rand.Read(b) },
		Tell: func(ctx context.Context, userID, text, nonce string) error { return a.Tell(ctx, userID, text, nonce) },
		Changed: func() {
			now := allowed
			err := w.db.Read(context.Background(), func(q db.Queryer) (err error) {
				now.AllowedUserIDs, err = people.Approved(q)
				return err
			})
			if err != nil {
				t.Error(err)
			}
			a.Allow(now)
		},
	})
	o := w.options()
	o.Stranger = func(tx *db.Tx, u surface.User) error { return people.Knock(tx, u.ID, u.Name) }
	a, _ = w.connected(o)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- people.Run(ctx) }()
	defer func() {
		stop()
		<-done
	}()
	dm := w.server.DM(w.ann)
	w.server.Say(dm, w.ann, "let me in", discordtest.SayOptions{})
	w.server.Say(dm, w.ann, "please", discordtest.SayOptions{})
	w.await("a code", func() bool { return len(w.server.Ours(dm)) == 1 })
	list, err := people.List(t.Context())
	if err != nil || len(list) != 1 || list[0].Name != w.ann.Name || !strings.Contains(w.server.Ours(dm)[0].Content, list[0].Code) {
		t.Fatalf("%+v, %v: told %+v", list, err, w.server.Ours(dm))
	}
	if row, err := people.Settle(t.Context(), strings.ToLower(strings.ReplaceAll(list[0].Code, "-", " ")), true); err != nil || row.State != pairing.Approved {
		t.Fatal(row, err)
	}
	w.server.Say(dm, w.ann, "hello", discordtest.SayOptions{})
	w.hears("hello")
	if _, err := people.Settle(t.Context(), w.ann.ID, false); err != nil {
		t.Fatal(err)
	}
	w.server.Say(dm, w.ann, "once more", discordtest.SayOptions{})
	w.server.Say(w.channel, w.bob, "the end", discordtest.SayOptions{})
	w.hears("the end")
	if n := len(w.server.Ours(dm)); n != 1 {
		t.Errorf("%d answers to a stranger", n)
	}
	for _, text := range []string{"let me in", "please", "once more"} {
		if slices.Contains(w.said(), text) {
			t.Errorf("%q was read", text)
		}
	}
	if _, err := people.Settle(t.Context(), "ZZZZ-ZZZZ", true); err == nil {
		t.Error("an unknown code was approved")
	}
}
