package app

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"lilac/internal/core/account"
	"lilac/internal/core/memory"
	"lilac/internal/core/session"
	"lilac/internal/core/surface"
	"lilac/internal/core/task"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/serve/toolserver"
	"lilac/internal/store"
	"lilac/internal/surfaces/discord"
	"lilac/internal/testkit/effort"
)

// talk is a conversation of the test, and the group of conversations that may know the same.
type talk struct {
	id, client string
	group      string
	// reads is a further group that it may read.
	reads string
	// people have accounts and are in the conversation, its owner first.
	people []string
}

// mixed returns n conversations of all kinds.
func mixed(n int) (out []talk) {
	for i := range n {
		id := fmt.Sprintf("%d", 100_000+i)
		switch i % 10 {
		case 0:
			out = append(out, talk{id, []string{"web", "terminal", "acp"}[i/10%3], "operator", "", nil})
		case 1:
			out = append(out, talk{id, fmt.Sprintf("v1-p%d", i%3), id, "", nil})
		case 2: // of one person with an account
			owner := []string{"ada", "bob"}[i/10%2]
			out = append(out, talk{id, "web", owner, "", []string{owner}})
		case 3: // of several
			out = append(out, talk{id, "web", id, "", []string{"ada", "bob"}})
		case 4, 5, 6:
			out = append(out, talk{id, discord.Platform, id, "", nil}) // a private conversation
		case 7, 8:
			out = append(out, talk{id, discord.Platform, id, "", nil}) // a channel
		default:
			out = append(out, talk{id, discord.Platform, id, out[i-1].id, nil}) // a thread of the channel before
		}
	}
	return out
}

var canary = regexp.MustCompile(`canary(\d+)`)

// A private fact never appears in another conversation: not in what a conversation begins
// with, not in the notes that it can read, and not in the messages that it can find. The
// control has one place for all conversations, and finds the facts of others.
func TestAPrivateFactNeverAppearsInAnotherConversation(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	const conversations = 1000
	r := start(t, "")
	mem := remembered{r.p.base}
	talks := mixed(conversations)
	group := map[string]talk{}
	r.store(func(tx *db.Tx) error {
		for _, id := range []string{"ada", "bob"} {
			if err := (store.AccountPeople{}).AddPerson(tx, account.Person{ID: id, Name: id, Role: account.Member}); err != nil {
				return err
			}
		}
		for i, one := range talks {
			group[one.id] = one
			if err := r.p.store.Sessions.CreateSession(tx, session.Session{ID: one.id, Client: one.client, State: "idle"}); err != nil {
				return err
			}
			for n, person := range one.people {
				right := []account.Right{account.Owner, account.Read}[n]
				if err := (store.AccountShares{}).SaveShare(tx, account.Share{SessionID: one.id, PersonID: person, Right: right}); err != nil {
					return err
				}
			}
			said := session.HistoryMessage{ID: "m" + one.id, RequestID: one.client + ":" + one.id + ":m", Message: chat.Text(chat.User, "My secret is canary"+one.id)}
			if _, err := r.p.store.History.AppendHistory(tx, one.id, said); err != nil {
				return err
			}
			if one.client != discord.Platform {
				continue
			}
			s := surface.Session{Platform: discord.Platform, ChannelID: one.id, Kind: surface.Direct}
			switch i % 10 {
			case 7, 8:
				s.Kind, s.GuildID = surface.Channel, "g"
			case 9:
				s.Kind, s.GuildID, s.ParentChannelID = surface.Thread, "g", one.reads
			}
			if err := (store.SurfaceCache{}).PutSession(tx, s); err != nil {
				return err
			}
		}
		return nil
	})
	memories := mem.callables()
	var places func(ctx context.Context, client, sessionID string) ([]memory.Place, bool, error)
	memories.Places = func(ctx context.Context, client, sessionID string) ([]memory.Place, bool, error) {
		return places(ctx, client, sessionID)
	}
	list := memories.Callables()
	call := func(one talk, id string, input any) (string, error) {
		raw, err := json.Marshal(input)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range list {
			if c.ID != id {
				continue
			}
			value, err := c.Call(t.Context(), toolserver.Caller{Grant: toolserver.Grant{SessionID: one.id, Client: one.client}}, raw)
			text, _ := json.Marshal(value) // results always marshal
			return string(text), err
		}
		t.Fatalf("there is no callable %s", id)
		return "", nil
	}
	plant := func() {
		for _, one := range talks {
			if _, err := call(one, "memory.remember", map[string]any{"name": "fact-" + one.id, "text": "The secret is canary" + one.id}); err != nil {
				t.Fatalf("remember in %s: %v", one.id, err)
			}
		}
	}
	// leaks returns the facts of others that conversations see, and how many own ones.
	leaks := func(sample int) (foreign []string, own int) {
		for i := 0; i < len(talks); i += sample {
			one := talks[i]
			opening, err := mem.index(t.Context(), one.client, one.id)
			if err != nil {
				t.Fatal(err)
			}
			listed, err := call(one, "memory.list", struct{}{})
			if err != nil {
				t.Fatal(err)
			}
			seen := opening + listed
			for _, other := range []talk{one, talks[(i+1)%len(talks)], talks[(i+10)%len(talks)], talks[(i+501)%len(talks)]} {
				found, err := call(one, "memory.search", map[string]any{"query": "canary" + other.id})
				if err != nil {
					t.Fatal(err)
				}
				note, _ := call(one, "memory.recall", map[string]any{"name": "fact-" + other.id}) // most have none
				seen += found + note
			}
			for _, m := range canary.FindAllStringSubmatch(seen, -1) {
				switch from := group[m[1]].group; {
				case from == one.group:
					own++
				case from != one.reads:
					foreign = append(foreign, fmt.Sprintf("%s in %s (%s)", m[0], one.id, one.client))
				}
			}
		}
		return foreign, own
	}
	places = mem.placesOf
	plant()
	if foreign, own := leaks(1); len(foreign) > 0 || own < 3*conversations {
		t.Errorf("%d facts of others and %d own ones are seen, for example %s", len(foreign), own, strings.Join(foreign[:min(len(foreign), 5)], ", "))
	}
	places = func(context.Context, string, string) ([]memory.Place, bool, error) {
		return []memory.Place{memory.Operator, {Kind: memory.Channel, ID: "discord-" + talks[7].id}}, false, nil
	}
	if foreign, _ := leaks(50); len(foreign) == 0 {
		t.Error("control: with the places of others, no fact of them is found")
	}
}

// A sub-agent has the place of the conversation that started it, and a conversation of a
// platform that is off is not the operator's.
func TestThePlaceOfASubAgentIsThatOfItsConversation(t *testing.T) {
	r := start(t, "")
	mem := remembered{r.p.base}
	r.store(func(tx *db.Tx) error {
		if err := (store.SurfaceCache{}).PutSession(tx, surface.Session{Platform: discord.Platform, ChannelID: "5", Kind: surface.Direct}); err != nil {
			return err
		}
		for _, s := range []session.Session{{ID: "5", Client: discord.Platform, State: "idle"}, {ID: "sub-1", Client: task.Client, State: "idle"}, {ID: "sub-2", Client: task.Client, State: "idle"}} {
			if err := r.p.store.Sessions.CreateSession(tx, s); err != nil {
				return err
			}
		}
		_, err := tx.Exec(`INSERT INTO tasks (id, key, session_id, child_session, running, created_at, ended_at, json, checksum) VALUES ('t', '', '5', 'sub-1', 0, 1, 1, x'7B7D', 0)`)
		return err
	})
	places, _, err := mem.placesOf(t.Context(), task.Client, "sub-1")
	if err != nil || len(places) != 1 || places[0].String() != "people/discord-5" {
		t.Errorf("the sub-agent has %v, %v", places, err)
	}
	if places, _, err := mem.placesOf(t.Context(), task.Client, "sub-2"); err == nil {
		t.Errorf("a sub-agent of nobody has %v", places)
	}
}
