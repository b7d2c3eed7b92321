package discord_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/store"
	"lilac/internal/surfaces/discord"
	"lilac/internal/testkit/dbtest"
	"lilac/internal/testkit/discordtest"
	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/logtest"
)

func TestMain(m *testing.M) {
	effort.SideBySide(8)
	os.Exit(m.Run())
}

// world is a fake Discord with one server, one channel and two users, together with the adapter's
// dependencies.
type world struct {
	t testing.TB
	// identifyLimit is the default limit if the test uses fake time. Otherwise sessions can start without a
	// pause.
	identifyLimit discord.IdentifyLimit
	server        *discordtest.Server
	guild         string
	// allowed lists the servers where the bot listens.
	allowed []string
	channel string
	ann     discordtest.User
	bob     discordtest.User

	dir    string
	db     *db.DB
	blobs  *store.Blobs
	log    *logtest.Log
	opened bool
	// marks counts the marker events that caughtUp has sent.
	marks int

	mu     sync.Mutex
	events []event.Event
}

func newWorld(t testing.TB, o discordtest.Options) *world {
	w := &world{t: t, server: discordtest.New(t, o), dir: t.TempDir(), log: &logtest.Log{}}
	if !o.Memory {
		w.identifyLimit = discord.IdentifyLimit{Burst: 20, Every: time.Minute, MinInterval: time.Millisecond}
	}
	w.ann, w.bob = w.server.User("Ann"), w.server.User("Bob")
	w.guild = w.server.Guild("home", w.ann, w.bob)
	w.allowed = []string{w.guild}
	w.channel = w.server.Channel(w.guild, "general")
	w.open()
	t.Cleanup(w.close)
	var err error
	if w.blobs, err = store.OpenBlobs(store.BlobsDir(w.dir), nil, 0); err != nil {
		t.Fatal(err)
	}
	return w
}

// open opens the database, as the program does at startup.
func (w *world) open() {
	w.t.Helper()
	d, err := db.Open(context.Background(), dbtest.Options(db.Options{Dir: w.dir, Migrations: store.Migrations}))
	if err != nil {
		w.t.Fatal(err)
	}
	d.SetPublisher(func(tx *db.Tx, events []event.Event) error {
		tx.AfterCommit(func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.events = append(w.events, events...)
		})
		return nil
	})
	w.db, w.opened = d, true
}

func (w *world) close() {
	if w.opened {
		w.opened = false
		if err := w.db.Close(); err != nil {
			w.t.Error(err)
		}
	}
}

func (w *world) options() discord.Options {
	dial := &http.Transport{DialContext: w.server.Dial}
	w.t.Cleanup(dial.CloseIdleConnections)
	return discord.Options{
		Config: discord.Config{
			Token: discordtest.DefaultToken, APIURL: w.server.APIURL, Allowed: discord.Allowed{AllowedGuildIDs: w.allowed},
			BackfillAge: 24 * time.Hour, BackfillMessages: 200,
			AttachmentBytes: 1 << 20, AttachmentHosts: []string{hostOf(w.server.URL)},
		},
		DB: w.db, Tables: discord.TablesOf(store.Discord{}), Blobs: w.blobs,
		Logger: slog.New(slog.NewTextHandler(w.log, nil)),
		HTTP:   &http.Client{Transport: dial}, Dial: w.server.Dial, IdentifyLimit: w.identifyLimit,
	}
}

func hostOf(address string) string { return strings.TrimPrefix(address, "http://") }

// run runs an adapter until the test calls stop.
func (w *world) run(o discord.Options) (a *discord.Adapter, stop func()) {
	w.t.Helper()
	a = discord.New(o)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				w.t.Errorf("the adapter ended: %v", err)
			}
		})
	}
	w.t.Cleanup(stop)
	return a, stop
}

// connected runs an adapter and waits until it receives events.
func (w *world) connected(o discord.Options) (*discord.Adapter, func()) {
	w.t.Helper()
	a, stop := w.run(o)
	w.await("the adapter knows itself", func() bool { _, known := a.Self(); return known && a.Healthy() == nil })
	w.server.AwaitConnected(w.t)
	return a, stop
}

func (w *world) await(what string, holds func() bool) {
	w.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !holds() {
		if time.Now().After(deadline) {
			w.t.Fatalf("after a minute still not: %s\n%s", what, w.log.String())
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// published returns the published events of a type.
func (w *world) published(kind event.Type) (out []event.Payload) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.events {
		if e.Type != kind {
			continue
		}
		p, err := event.Decode(e)
		if err != nil {
			w.t.Fatal(err)
		}
		out = append(out, p)
	}
	return out
}

// said returns the texts of the published messages.
func (w *world) said() (out []string) {
	for _, p := range w.published(event.AdapterMessageCreated) {
		out = append(out, p.(event.AdapterMessage).Text)
	}
	return out
}

// hears waits until a message with the text is published and returns it with its facts.
func (w *world) hears(text string) (m event.AdapterMessage, f surface.Facts) {
	w.t.Helper()
	w.await("hearing "+text, func() bool {
		for _, p := range w.published(event.AdapterMessageCreated) {
			if p.(event.AdapterMessage).Text == text {
				m = p.(event.AdapterMessage)
				return true
			}
		}
		return false
	})
	f, ok := surface.FactsOf(discord.Platform, m.Raw)
	if !ok {
		w.t.Fatalf("%q has no facts: %s", text, m.Raw)
	}
	return m, f
}

// caughtUp waits until the adapter has processed all gateway events, including those that Discord
// sends about a server's channels some time after the session starts. It uses a reaction as the
// marker: a message could be read earlier from the history, but a reaction cannot.
func (w *world) caughtUp() {
	w.t.Helper()
	w.caughtUpIn(w.channel, w.guild)
}

// caughtUpIn is like [world.caughtUp], but sends the marker in the given channel. An empty guild
// means a direct message channel.
func (w *world) caughtUpIn(channel, guild string) {
	w.t.Helper()
	w.marks++
	mark := fmt.Sprint("mark-", w.marks)
	w.server.Tell("MESSAGE_REACTION_ADD", json.RawMessage(fmt.Sprintf(
		`{"channel_id":%q,"guild_id":%q,"message_id":%q,"user_id":%q,"emoji":{"name":"👍"}}`, channel, guild, mark, w.ann.ID)))
	w.await("hearing all of it", func() bool {
		return slices.ContainsFunc(w.published(event.AdapterReactionAdded), func(p event.Payload) bool {
			return p.(event.AdapterReaction).MessageID == mark
		})
	})
}

// nothingLeft waits until the backfill has no gaps left.
func (w *world) nothingLeft() {
	w.t.Helper()
	w.await("nothing is left to read", func() bool {
		var gaps []discord.Gap
		if err := w.db.Read(context.Background(), func(q db.Queryer) (err error) { gaps, err = store.Discord{}.Gaps(q, 10); return err }); err != nil {
			w.t.Fatal(err)
		}
		return len(gaps) == 0
	})
}

func (w *world) hearsOnly(texts ...string) {
	w.t.Helper()
	if got := w.said(); !slices.Equal(got, texts) {
		w.t.Errorf("heard %q, want %q", got, texts)
	}
}

// cached reads a message from the cache.
func (w *world) cached(channel, id string) (m surface.Message, err error) {
	err = w.db.Read(context.Background(), func(q db.Queryer) error {
		m, err = store.SurfaceCache{}.Message(q, discord.Platform, channel, id)
		return err
	})
	return m, err
}
