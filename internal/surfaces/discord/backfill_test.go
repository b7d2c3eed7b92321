package discord_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/store"
	"lilac/internal/surfaces/discord"
	"lilac/internal/testkit/discordtest"
	"lilac/internal/testkit/effort"
)

func TestWhatWasEditedDeletedOrArchivedMeanwhileIsSeenAfterADowntime(t *testing.T) {
	effort.SkipSlow(t)
	t.Parallel() // it waits most of the time
	w := newWorld(t, discordtest.Options{})
	thread := w.server.Thread(w.channel, "thread")
	_, stop := w.connected(w.options())
	edited := w.server.Say(w.channel, w.ann, "green", discordtest.SayOptions{})
	gone := w.server.Say(w.channel, w.ann, "a secret", discordtest.SayOptions{})
	kept := w.server.Say(w.channel, w.ann, "kept", discordtest.SayOptions{})
	w.server.Say(thread, w.bob, "in the thread", discordtest.SayOptions{})
	for _, text := range []string{"green", "a secret", "kept", "in the thread"} {
		w.hears(text)
	}
	stop()
	w.server.ExpireSessions()
	w.server.Edit(w.channel, edited, "blue")
	w.server.Delete(w.channel, gone)
	w.server.Say(thread, w.bob, "the last word", discordtest.SayOptions{})
	w.server.Archive(thread)
	w.connected(w.options())
	w.hears("the last word")
	w.await("the edit and the deletion", func() bool {
		return len(w.published(event.AdapterMessageUpdated)) == 1 && len(w.published(event.AdapterMessageDeleted)) == 1
	})
	if m, err := w.cached(w.channel, edited); err != nil || m.Text != "blue" {
		t.Errorf("the cache has %q (%v)", m.Text, err)
	}
	if _, err := w.cached(w.channel, gone); err == nil {
		t.Error("what was deleted is in the cache")
	}
	if m, err := w.cached(w.channel, kept); err != nil || m.Text != "kept" {
		t.Errorf("the cache has %q (%v)", m.Text, err)
	}
	if missing := len(w.said()); missing != 5 {
		t.Errorf("heard %q", w.said())
	}
}

// The bot can send a message before a new gateway session begins, for example the rest of an answer
// that a crash interrupted. That message is newer than the messages that users posted meanwhile, and
// the backfill must still read those.
func TestOurOwnMessageDoesNotHideWhatWasSaidBeforeIt(t *testing.T) {
	effort.SkipSlow(t)
	t.Parallel() // it waits most of the time
	w := newWorld(t, discordtest.Options{})
	a, stop := w.connected(w.options())
	w.server.Say(w.channel, w.ann, "heard", discordtest.SayOptions{})
	w.hears("heard")
	stop()
	w.server.ExpireSessions()
	w.server.Say(w.channel, w.ann, "said meanwhile", discordtest.SayOptions{})
	ours, err := a.Send(t.Context(), say(w, "the answer goes on", "n1"))
	if err != nil {
		t.Fatal(err)
	}
	// As the code that displays the answer does.
	if err := w.db.Update(t.Context(), func(tx *db.Tx) error { return store.SurfaceCache{}.PutMessage(tx, ours) }); err != nil {
		t.Fatal(err)
	}
	w.connected(w.options())
	w.hears("said meanwhile")
	w.hears("the answer goes on")
	w.hearsOnly("heard", "said meanwhile", "the answer goes on")
}

// When the bot re-anchors an answer, it deletes the old message. A reply to the deleted message that
// is read later still counts as a reply to the bot, although Discord no longer returns the original.
func TestAReplyToWhatWeDeletedMeanwhileIsOneToUs(t *testing.T) {
	effort.SkipSlow(t)
	t.Parallel() // it waits most of the time
	w := newWorld(t, discordtest.Options{})
	a, stop := w.connected(w.options())
	ours, err := a.Send(t.Context(), say(w, "an answer", "n1"))
	if err != nil {
		t.Fatal(err)
	}
	w.hears("an answer")
	stop()
	w.server.ExpireSessions()
	w.server.Say(w.channel, w.ann, "and more", discordtest.SayOptions{ReplyTo: ours.ID})
	w.server.Delete(w.channel, ours.ID)
	// As the code that re-anchors the answer does.
	if err := w.db.Update(t.Context(), func(tx *db.Tx) error {
		return store.SurfaceCache{}.MarkDeleted(tx, discord.Platform, w.channel, ours.ID, 1)
	}); err != nil {
		t.Fatal(err)
	}
	w.connected(w.options())
	if _, f := w.hears("and more"); !f.ReplyToBot || f.ReplyToMessageID != ours.ID {
		t.Errorf("it is taken for %+v", f)
	}
}

// Discord does not announce archived threads. The backfill must find messages that were posted in
// them while the bot was offline, whether the thread is new or old.
func TestThreadsThatWereArchivedMeanwhileAreRead(t *testing.T) {
	effort.SkipSlow(t)
	t.Parallel() // it waits most of the time
	heard := func(t *testing.T, change func(*discord.Options)) (missing, twice int, w *world) {
		w = newWorld(t, discordtest.Options{})
		forum := w.server.Forum(w.guild, "ideas")
		// This thread is archived before the bot first connects, so the bot does not know it.
		old := w.server.Thread(w.channel, "old")
		w.server.Say(old, w.ann, "before the bot was there", discordtest.SayOptions{})
		w.server.Archive(old)
		awake := w.server.Thread(w.channel, "archived, and active again")
		w.server.Archive(awake)
		// Discord lists private threads by age. This thread is not on the first page.
		buried := w.server.PrivateThread(w.channel, "private, and long ago")
		w.server.Archive(buried)
		for i := range 120 {
			w.server.Archive(w.server.PrivateThread(w.channel, fmt.Sprint("private ", i)))
		}
		_, stop := w.connected(w.options())
		w.server.Say(w.channel, w.ann, "message 0", discordtest.SayOptions{})
		w.hears("message 0")
		stop()
		w.server.ExpireSessions()
		begun := w.server.Thread(w.channel, "begun and archived")
		private := w.server.PrivateThread(w.channel, "private")
		said := 1
		for _, thread := range []string{begun, private, old, awake, buried} {
			w.server.Say(thread, w.bob, fmt.Sprintf("message %d", said), discordtest.SayOptions{})
			said++
		}
		for _, thread := range []string{begun, private, old, buried} {
			w.server.Archive(thread)
		}
		w.server.Archive(w.server.Post(forum, w.ann, "an idea", fmt.Sprintf("message %d", said)))
		w.server.Post(forum, w.ann, "another", fmt.Sprintf("message %d", said+1))
		o := w.options()
		change(&o)
		_, stop = w.connected(o)
		w.server.Say(w.channel, w.ann, fmt.Sprintf("message %d", said+2), discordtest.SayOptions{})
		w.caughtUp()
		w.hears(fmt.Sprintf("message %d", said+2))
		w.nothingLeft()
		stop()
		missing, twice = lost(said+3, w.said())
		return missing, twice, w
	}
	missing, twice, w := heard(t, func(*discord.Options) {})
	if missing != 0 || twice != 0 || slices.Contains(w.said(), "before the bot was there") {
		t.Errorf("%d lost, %d heard twice: %q", missing, twice, w.said())
	}
	missing, _, _ = heard(t, func(o *discord.Options) { o.Tables.Gaps = threadless{o.Tables.Gaps} })
	if missing != 5 {
		t.Errorf("without looking for archived threads %d messages were lost, want 5: the test shows nothing", missing)
	}
}

// threadless is a table that does not store gaps that cover a channel's threads.
type threadless struct{ discord.GapTable }

func (t threadless) OpenGap(tx *db.Tx, g discord.Gap) error {
	if g = g.Messages(); g.After == "" {
		return nil
	}
	return t.GapTable.OpenGap(tx, g)
}

// forSome is a table that returns at most two gaps per call.
type forSome struct{ discord.GapTable }

func (f forSome) Gaps(q db.Queryer, _ int) ([]discord.Gap, error) { return f.GapTable.Gaps(q, 2) }

func TestMoreChannelsThanAreLookedAtInOneGoAreRead(t *testing.T) {
	effort.SkipSlow(t)
	t.Parallel() // it waits most of the time
	w := newWorld(t, discordtest.Options{})
	var channels []string
	for i := range 7 {
		channels = append(channels, w.server.Channel(w.guild, fmt.Sprint("room-", i)))
	}
	_, stop := w.connected(w.options())
	w.server.Say(w.channel, w.ann, "hello", discordtest.SayOptions{})
	w.hears("hello")
	stop()
	w.server.ExpireSessions()
	for i, channel := range channels {
		w.server.Say(channel, w.bob, fmt.Sprint("message ", i), discordtest.SayOptions{})
	}
	o := w.options()
	o.Tables.Gaps = forSome{o.Tables.Gaps}
	w.connected(o)
	for i := range channels {
		w.hears(fmt.Sprint("message ", i))
	}
}

// If the backfill skips messages because there are too many, it writes a line to the log.
func TestWhatIsTooMuchToBeReadIsToldOf(t *testing.T) {
	effort.SkipSlow(t)
	t.Parallel() // it waits most of the time
	for said, told := range map[int]bool{2: false, 5: true, 150: true} {
		t.Run(fmt.Sprint(said), func(t *testing.T) {
			w := newWorld(t, discordtest.Options{})
			o := w.options()
			o.BackfillMessages = 3
			_, stop := w.connected(o)
			w.server.Say(w.channel, w.ann, "hello", discordtest.SayOptions{})
			w.hears("hello")
			stop()
			w.server.ExpireSessions()
			for i := range said {
				w.server.Say(w.channel, w.bob, fmt.Sprint("message ", i+1), discordtest.SayOptions{})
			}
			w.connected(o)
			w.hears(fmt.Sprint("message ", said))
			w.caughtUp()
			w.nothingLeft()
			warned := strings.Contains(w.log.String(), "more missed messages than surface.discord.backfill.messages allows") && strings.Contains(w.log.String(), "channel_id="+w.channel+" limit=3")
			if got := len(w.said()) - 1; got != min(said, 3) || warned != told {
				t.Errorf("%d messages were read; told of others: %v", got, warned)
			}
		})
	}
}

// A deleted channel no longer owns its name, so that another channel can use it. This holds for
// channels that are deleted while the bot is online and while it is offline. The messages of the
// deleted channel stay in the cache.
func TestADeletedChannelLeavesItsName(t *testing.T) {
	effort.SkipSlow(t)
	t.Parallel() // it waits most of the time
	w := newWorld(t, discordtest.Options{})
	titled := func(title string) (ids []string) {
		t.Helper()
		if err := w.db.Read(t.Context(), func(q db.Queryer) error {
			sessions, err := store.SurfaceCache{}.Sessions(q, discord.Platform)
			for _, s := range sessions {
				if s.Title == title {
					ids = append(ids, s.ChannelID)
				}
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return ids
	}
	first := w.server.Channel(w.guild, "ops")
	thread := w.server.Thread(first, "talk")
	private := w.server.DM(w.ann)
	o := w.options()
	o.AllowDMs = true
	a, stop := w.connected(o)
	for i, channel := range []string{first, thread, private} {
		w.server.Say(channel, w.ann, fmt.Sprint("message ", i), discordtest.SayOptions{})
		w.hears(fmt.Sprint("message ", i))
	}
	w.server.DeleteChannel(first)
	second := w.server.Channel(w.guild, "ops")
	w.server.Say(second, w.ann, "in the second", discordtest.SayOptions{})
	w.hears("in the second")
	if got := titled("ops"); !slices.Equal(got, []string{second}) {
		t.Errorf("of the name ops are %q, want %q", got, second)
	}
	_, err := a.Send(t.Context(), surface.Send{ChannelID: first, Content: surface.Content{Text: "x"}, Nonce: "n"})
	var refused *fault.Error
	if fault.KindOf(err) != fault.NotFound || !errors.As(err, &refused) || refused.Code != surface.CodeUnknownChannel {
		t.Errorf("writing to it: %v", err)
	}
	stop()
	w.server.ExpireSessions()
	w.server.DeleteChannel(second)
	third := w.server.Channel(w.guild, "ops")
	w.connected(o)
	w.server.Say(third, w.ann, "in the third", discordtest.SayOptions{})
	w.hears("in the third")
	if got := titled("ops"); !slices.Equal(got, []string{third}) {
		t.Errorf("of the name ops are %q, want %q", got, third)
	}
	if got := titled("talk"); len(got) != 0 {
		t.Errorf("the thread of a deleted channel is there: %q", got)
	}
	if len(titled("Ann")) != 1 || len(titled("general")) != 1 {
		t.Error("other conversations are gone")
	}
	if said := w.said(); len(said) != 5 {
		t.Errorf("heard %q", said)
	}
}

// Discord also sends channels that the bot cannot see, with the ID of their last message. Reading
// those is refused, and too many refusals ban the IP address. Messages in them are not addressed to
// the bot, even if it gains access later.
func TestChannelsThatAreHiddenFromTheBotAreNotAskedFor(t *testing.T) {
	effort.SkipSlow(t)
	t.Parallel() // it waits most of the time
	w := newWorld(t, discordtest.Options{})
	var hidden []string
	hide := func(channel string, p discordtest.Permission) {
		w.server.Deny(channel, w.guild, p)
		hidden = append(hidden, channel)
	}
	for i := range 10 {
		hide(w.server.Channel(w.guild, fmt.Sprint("board-", i)), discordtest.ViewChannel)
	}
	hide(w.server.Channel(w.guild, "no history"), discordtest.ReadMessageHistory)
	hide(w.server.Voice(w.guild, "closed door"), discordtest.Connect)
	hide(w.server.Forum(w.guild, "hidden ideas"), discordtest.ViewChannel)
	shown := w.server.Channel(w.guild, "for the bot's role")
	w.server.Deny(shown, w.guild, discordtest.ViewChannel)
	w.server.Allow(shown, w.server.Role(w.guild, 0, w.server.Self().ID), discordtest.ViewChannel)
	all := func(text string) {
		for _, channel := range hidden[:12] {
			w.server.Say(channel, w.ann, text, discordtest.SayOptions{})
		}
	}
	again := func() {
		_, stop := w.connected(w.options())
		w.caughtUp()
		w.nothingLeft()
		stop()
		w.server.ExpireSessions()
	}
	again()
	all("behind closed doors")
	w.server.Say(shown, w.ann, "to the bot", discordtest.SayOptions{})
	again()
	w.hears("to the bot")
	for _, r := range w.server.Requests() {
		if r.Status == http.StatusForbidden {
			t.Errorf("%s was asked for and refused", r.Path)
		}
	}
	w.server.Permit(hidden[0], w.guild, discordtest.ViewChannel)
	w.server.Say(hidden[0], w.ann, "come in", discordtest.SayOptions{})
	again()
	w.hears("come in")
	if said := w.said(); slices.Contains(said, "behind closed doors") {
		t.Errorf("it heard %q", said)
	}
}

// A history page can contain a message that is deleted while the page is processed.
func TestWhatIsDeletedWhileTheHistoryIsReadIsNotHeard(t *testing.T) {
	for _, deleted := range []bool{true, false} {
		t.Run(fmt.Sprintf("deleted=%v", deleted), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, discordtest.Options{Memory: true})
				_, stop := w.connected(w.options())
				w.server.Say(w.channel, w.ann, "hello", discordtest.SayOptions{})
				w.hears("hello")
				stop()
				w.server.ExpireSessions()
				w.server.Say(w.channel, w.bob, "look", discordtest.SayOptions{Files: []discordtest.File{{Name: "a.txt", Data: []byte("a")}}})
				secret := w.server.Say(w.channel, w.ann, "my password", discordtest.SayOptions{})
				before := len(w.server.Requests())
				w.server.FailNext("GET /cdn", discordtest.Fault{Delay: time.Second})
				w.connected(w.options())
				w.await("the history is read", func() bool {
					return slices.ContainsFunc(w.server.Requests()[before:], func(r discordtest.Request) bool { return r.Route == "GET /channels/{channel}/messages" })
				})
				if deleted {
					w.server.Delete(w.channel, secret)
					w.caughtUp()
				}
				w.nothingLeft()
				want := []string{"hello", "look", "my password"}
				if deleted {
					want = want[:2]
				}
				w.hearsOnly(want...)
				if _, err := w.cached(w.channel, secret); (err == nil) == deleted {
					t.Errorf("in the cache: %v", err)
				}
			})
		})
	}
}

func TestWhatIsTooOldIsNotReadAfterADowntime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// The fake clock starts before Discord's epoch.
		time.Sleep(time.Until(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)))
		w := newWorld(t, discordtest.Options{Memory: true})
		_, stop := w.connected(w.options())
		w.server.Say(w.channel, w.ann, "message 0", discordtest.SayOptions{})
		w.hears("message 0")
		stop()
		w.server.ExpireSessions()
		w.server.Say(w.channel, w.ann, "of the day before yesterday", discordtest.SayOptions{})
		time.Sleep(36 * time.Hour)
		w.server.Say(w.channel, w.ann, "message 1", discordtest.SayOptions{})
		w.connected(w.options())
		w.hears("message 1")
		w.hearsOnly("message 0", "message 1")
	})
}

// Messages posted in a server before the bot joined or rejoined are not addressed to it, however long
// the gateway session exists. Messages posted after that are.
func TestWhatWasSaidBeforeWeJoinedIsNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// The fake clock starts before Discord's epoch.
		time.Sleep(time.Until(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)))
		w := newWorld(t, discordtest.Options{Memory: true})
		_, stop := w.connected(w.options())
		w.server.Say(w.channel, w.ann, "before", discordtest.SayOptions{})
		w.hears("before")
		stop()
		w.server.ExpireSessions()
		w.connected(w.options())
		time.Sleep(time.Hour)
		w.server.Leave(w.guild, w.server.Self())
		fresh := w.server.Channel(w.guild, "fresh")
		w.server.Say(fresh, w.ann, "while you were away", discordtest.SayOptions{})
		time.Sleep(time.Hour)
		w.server.Join(w.guild, w.server.Self(), "")
		w.server.Say(fresh, w.ann, "welcome back", discordtest.SayOptions{})
		w.hears("welcome back")
		time.Sleep(time.Minute) // leave time for a backfill that would be wrong
		w.hearsOnly("before", "welcome back")
	})
}
