package store_test

import (
	"fmt"
	"slices"
	"testing"

	"lilac/internal/db"
	"lilac/internal/fault"
	"lilac/internal/store"
	"lilac/internal/surface"
)

func cached(id, replyTo, text string) surface.Message {
	return surface.Message{Platform: "discord", ChannelID: "10", ID: id, ReplyTo: replyTo, Text: text, AuthorID: "1", CreatedAt: 1}
}

func put(t *testing.T, d *db.DB, messages ...surface.Message) {
	t.Helper()
	update(t, d, func(tx *db.Tx) error {
		for _, m := range messages {
			if err := (store.SurfaceCache{}).PutMessage(tx, m); err != nil {
				return err
			}
		}
		return nil
	})
}

// ids runs a list of the cache and returns the ids.
func ids(t *testing.T, d *db.DB, list func(q db.Queryer) ([]surface.Message, error)) (out []string) {
	t.Helper()
	if err := read(t, d, func(q db.Queryer) error {
		messages, err := list(q)
		for _, m := range messages {
			out = append(out, m.ID)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestAnOlderStateOfAMessageNeverWins(t *testing.T) {
	d, _ := open(t)
	c := store.SurfaceCache{}
	edited := cached("5", "", "new")
	edited.EditedAt, edited.RequestID = 9, "discord:10:4"
	edited.Attachments = []surface.Attachment{{ID: "a", URL: "u", Blob: "blob:sha256:aa"}}
	older := cached("5", "", "old")
	newer := cached("5", "", "newest")
	newer.EditedAt, newer.Attachments = 10, []surface.Attachment{{ID: "a", URL: "u2"}}
	put(t, d, edited, older, newer)
	var got surface.Message
	if err := read(t, d, func(q db.Queryer) (err error) { got, err = c.Message(q, "discord", "10", "5"); return err }); err != nil {
		t.Fatal(err)
	}
	if got.Text != "newest" || got.RequestID != "discord:10:4" || got.Attachments[0].Blob != "blob:sha256:aa" || got.Attachments[0].URL != "u2" {
		t.Errorf("the cache holds %+v", got)
	}
	update(t, d, func(tx *db.Tx) error { return c.MarkDeleted(tx, "discord", "10", "5", 11) })
	put(t, d, newer) // a state that arrives after the deletion
	if err := read(t, d, func(q db.Queryer) error { _, err := c.Message(q, "discord", "10", "5"); return err }); fault.KindOf(err) != fault.NotFound {
		t.Errorf("a deleted message: %v", err)
	}
}

func TestAChainOfRepliesStopsAtAGapAndAtACircle(t *testing.T) {
	d, _ := open(t)
	put(t, d, cached("3", "2", ""), cached("4", "3", ""), cached("5", "4", ""), cached("7", "8", ""), cached("8", "7", ""))
	for _, c := range []struct {
		from  string
		depth int
		want  []string
	}{
		{"5", 20, []string{"3", "4", "5"}},
		{"5", 2, []string{"4", "5"}},
		{"8", 20, []string{"7", "8"}},
	} {
		got := ids(t, d, func(q db.Queryer) ([]surface.Message, error) {
			return store.SurfaceCache{}.ReplyChain(q, "discord", "10", c.from, c.depth)
		})
		if !slices.Equal(got, c.want) {
			t.Errorf("chain of %s: %v, want %v", c.from, got, c.want)
		}
	}
}

func TestMessagesAreListedNewestFirstByTheirNumbers(t *testing.T) {
	d, _ := open(t)
	put(t, d, cached("99", "", ""), cached("100", "", ""), cached("1000", "", ""), cached("101", "", ""))
	update(t, d, func(tx *db.Tx) error { return store.SurfaceCache{}.MarkDeleted(tx, "discord", "10", "100", 1) })
	list := func(before string) []string {
		return ids(t, d, func(q db.Queryer) ([]surface.Message, error) {
			return store.SurfaceCache{}.Messages(q, "discord", "10", before, 2)
		})
	}
	if got := list(""); !slices.Equal(got, []string{"1000", "101"}) {
		t.Errorf("first page %v", got)
	}
	if got := list("101"); !slices.Equal(got, []string{"99"}) {
		t.Errorf("second page %v", got)
	}
}

func TestWordsAreFoundInTheChannelsThatAreAsked(t *testing.T) {
	d, _ := open(t)
	c := store.SurfaceCache{}
	elsewhere := cached("9", "", "the release notes of another team")
	elsewhere.ChannelID = "11"
	put(t, d, cached("5", "", "Release notes, finally"), cached("6", "", "nothing"), elsewhere)
	search := func(query string, channels ...string) []string {
		return ids(t, d, func(q db.Queryer) ([]surface.Message, error) {
			return c.SearchMessages(q, "discord", channels, query, 10)
		})
	}
	if got := search("notes relea", "10"); !slices.Equal(got, []string{"5"}) {
		t.Errorf("found %v", got)
	}
	if got := search(`rel" OR NEAR( -notes`, "10"); len(got) != 0 {
		t.Errorf("syntax found %v", got)
	}
	put(t, d, func() surface.Message { m := cached("5", "", "gone"); m.EditedAt = 2; return m }())
	if got := search("notes", "10", "11"); !slices.Equal(got, []string{"9"}) {
		t.Errorf("after the edit found %v", got)
	}
}

func TestASessionsReadPositionFollowsItsMessages(t *testing.T) {
	d, _ := open(t)
	c := store.SurfaceCache{}
	update(t, d, func(tx *db.Tx) error {
		return c.PutSession(tx, surface.Session{Platform: "discord", ChannelID: "10", Title: "ops", LastMessageID: "99"})
	})
	put(t, d, cached("100", "", ""), cached("98", "", ""))
	if err := read(t, d, func(q db.Queryer) error {
		s, err := c.Session(q, "discord", "10")
		if s.ReadMessageID != "100" || s.LastMessageID != "100" || s.Title != "ops" {
			t.Errorf("the session is %+v", s)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

func TestPeopleAreFoundByNameWhateverTheCase(t *testing.T) {
	d, _ := open(t)
	c := store.SurfaceCache{}
	update(t, d, func(tx *db.Tx) error {
		for i, name := range []string{"Änne", "bob", "BOB"} {
			if err := c.PutUser(tx, "discord", surface.User{ID: fmt.Sprint(i), Name: name}); err != nil {
				return err
			}
		}
		return nil
	})
	for name, want := range map[string]int{"änne": 1, "Bob": 2, "nobody": 0} {
		if err := read(t, d, func(q db.Queryer) error {
			users, err := c.UsersNamed(q, "discord", name)
			if len(users) != want {
				t.Errorf("%s: %v", name, users)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
}
