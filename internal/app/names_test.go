package app

import (
	"strings"
	"testing"

	"lilac/internal/core/session"
	"lilac/internal/core/surface"
	"lilac/internal/core/task"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
	"lilac/internal/store"
	"lilac/internal/surfaces/discord"
)

// openServer is a Discord adapter whose configuration allows the server g.
type openServer struct{ surface.Adapter }

func (openServer) Platform() string             { return discord.Platform }
func (openServer) Opens(s surface.Session) bool { return s.GuildID == "g" }

// Rules, texts and calls can name a channel by its title if exactly one visible channel that
// the configuration allows has that title.
func TestATitleIsTheOneChannelThatIsOpenToUs(t *testing.T) {
	r := start(t, "entity: {sessions: {discord: {front: \"70\"}}}\n")
	r.p.platforms = append(r.p.platforms, &platform{adapter: openServer{}})
	in := func(id, title, guild string, kind surface.ChannelKind, parent string, hidden bool) surface.Session {
		return surface.Session{Platform: discord.Platform, ChannelID: id, Title: title, GuildID: guild, Kind: kind, ParentChannelID: parent, Hidden: hidden}
	}
	r.store(func(tx *db.Tx) error {
		for _, s := range []surface.Session{
			in("1", "ops", "g", surface.Channel, "", false), in("2", "ops", "other", surface.Channel, "", false), in("3", "ops", "g", surface.Channel, "", true),
			in("4", "ops", "g", surface.Thread, "3", false), in("5", "ops", "", surface.Direct, "", false),
			in("6", "twins", "g", surface.Channel, "", false), in("7", "Twins", "g", surface.Thread, "1", false),
			in("8", "vault", "g", surface.Channel, "", true), in("9", "plans", "g", surface.Channel, "", false),
		} {
			if err := (store.SurfaceCache{}).PutSession(tx, s); err != nil {
				return err
			}
		}
		for _, s := range []session.Session{
			{ID: "5", Client: discord.Platform, Title: "ada", State: "idle"}, // a private conversation
			{ID: "s1", Client: "web", Title: "#plans", State: "idle"},
			{ID: "sub-1", Client: task.Client, Title: "#plans", State: "idle", UpdatedAt: 1}, // a sub-agent that the agent named like a channel
			{ID: "6", Client: discord.Platform, Title: "#twins", State: "idle"},              // the agent has a session in one of the two
		} {
			if err := r.p.store.Sessions.CreateSession(tx, s); err != nil {
				return err
			}
		}
		return nil
	})
	named := names{r.p.base}
	sessions := named.sessions()
	err := r.p.db.Read(t.Context(), func(q db.Queryer) error {
		for title, want := range map[string]string{"#ops": "1", "OPS": "1", "#vault": "", "#nowhere": "", "#plans": "s1", "plans": "9", "#front": "70", "ada": "5"} {
			if got, err := sessions.Titled(q, title); err != nil || got != want {
				t.Errorf("%s is %q, %v; want %q", title, got, err, want)
			}
		}
		if got, err := sessions.Titled(q, "#twins"); fault.KindOf(err) != fault.Conflict || !strings.Contains(err.Error(), "6, 7 (a thread of #ops)") {
			t.Errorf("#twins is %q, %v; want an error that names both", got, err)
		}
		names := named.mapper(q, discord.Platform)
		if got, err := names.SessionID("#ops"); err != nil || got != "1" {
			t.Errorf("a call finds %q, %v", got, err)
		}
		if got, _ := names.Out("see #ops, #twins and #vault"); got != "see <#1>, #twins and #vault" {
			t.Errorf("a text says %q", got)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
