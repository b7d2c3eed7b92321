package store_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"lilac/internal/core/session"
	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/store"
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

// remembered returns the ids of the Discord sessions in the cache.
func remembered(t *testing.T, d *db.DB) (ids []string) {
	t.Helper()
	if err := read(t, d, func(q db.Queryer) error {
		sessions, err := store.SurfaceCache{}.Sessions(q, "discord")
		for _, s := range sessions {
			ids = append(ids, s.ChannelID)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	slices.Sort(ids)
	return ids
}

// ids calls list and returns the ids of the messages.
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
	put(t, d, newer) // an update that arrives after the deletion
	if err := read(t, d, func(q db.Queryer) error { _, err := c.Message(q, "discord", "10", "5"); return err }); fault.KindOf(err) != fault.NotFound {
		t.Errorf("a deleted message: %v", err)
	}
}

// A message that is deleted before it is inserted stays deleted: a page of channel history
// can contain messages that were deleted after the platform returned it.
func TestAMessageThatComesAfterItsDeletionStaysAway(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	d, _ := openAt(t, &now)
	c := store.SurfaceCache{}
	gone, there := cached("5", "", "a secret"), cached("6", "", "no secret")
	update(t, d, func(tx *db.Tx) error { return c.MarkDeleted(tx, "discord", "10", "5", 1) })
	put(t, d, gone, there)
	if _, err := message(t, d, "5"); fault.KindOf(err) != fault.NotFound {
		t.Errorf("what was deleted before it came: %v", err)
	}
	if got := ids(t, d, func(q db.Queryer) ([]surface.Message, error) {
		return c.SearchMessages(q, "discord", []string{"10"}, "secret", 9)
	}); !slices.Equal(got, []string{"6"}) {
		t.Errorf("the search finds %v", got)
	}
	now = now.Add(time.Hour)
	update(t, d, func(tx *db.Tx) error { _, err := c.TrimMessages(tx, "discord", now, 100); return err })
	put(t, d, gone)
	if _, err := message(t, d, "5"); err != nil {
		t.Errorf("what is over age, also of deletions, was not forgotten: %v", err)
	}
}

func message(t *testing.T, d *db.DB, id string) (m surface.Message, err error) {
	t.Helper()
	err = read(t, d, func(q db.Queryer) (err error) {
		m, err = store.SurfaceCache{}.Message(q, "discord", "10", id)
		return err
	})
	return m, err
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

func TestASessionsReadPositionFollowsWhatIsReadInOrder(t *testing.T) {
	d, _ := open(t)
	c := store.SurfaceCache{}
	update(t, d, func(tx *db.Tx) error {
		return c.PutSession(tx, surface.Session{Platform: "discord", ChannelID: "10", Title: "ops", LastMessageID: "99"})
	})
	put(t, d, cached("100", "", ""), cached("98", "", ""), cached("101", "", "")) // 101 is not marked as read
	update(t, d, func(tx *db.Tx) error {
		return errors.Join(c.ReadUpTo(tx, cached("100", "", "")), c.ReadUpTo(tx, cached("98", "", "")))
	})
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

func TestChannelsThatAreGoneAreForgottenWithTheirThreads(t *testing.T) {
	d, _ := open(t)
	c := store.SurfaceCache{}
	of := func(guild, id, parent string, kind surface.ChannelKind) surface.Session {
		return surface.Session{Platform: "discord", ChannelID: id, GuildID: guild, ParentChannelID: parent, Kind: kind}
	}
	update(t, d, func(tx *db.Tx) error {
		for _, s := range []surface.Session{
			of("g", "1", "", surface.Channel), of("g", "11", "1", surface.Thread), of("g", "2", "", surface.Channel), of("g", "21", "2", surface.Thread),
			of("g", "3", "", surface.Channel), of("g", "31", "3", surface.Thread), of("other", "4", "", surface.Channel), of("", "5", "", surface.Direct),
		} {
			if err := c.PutSession(tx, s); err != nil {
				return err
			}
		}
		return nil
	})
	left := func() []string { return remembered(t, d) }
	update(t, d, func(tx *db.Tx) error { return c.ForgetSession(tx, "discord", "1") })
	if got := left(); !slices.Equal(got, []string{"2", "21", "3", "31", "4", "5"}) {
		t.Errorf("left %v", got)
	}
	update(t, d, func(tx *db.Tx) error { return c.ForgetMissing(tx, "discord", "g", []string{"3", "9"}) })
	if got := left(); !slices.Equal(got, []string{"3", "31", "4", "5"}) {
		t.Errorf("left %v", got)
	}
}

func TestPeopleAreForgottenByAgeAndBeyondANumber(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	d, _ := openAt(t, &now)
	c := store.SurfaceCache{}
	meet := func(platform string, people ...surface.User) {
		update(t, d, func(tx *db.Tx) error {
			for _, u := range people {
				if err := c.PutUser(tx, platform, u); err != nil {
					return err
				}
			}
			return nil
		})
	}
	trim := func(most int) (rounds int) {
		for more := true; more; rounds++ {
			update(t, d, func(tx *db.Tx) (err error) {
				more, err = c.TrimUsers(tx, "discord", now.Add(-180*24*time.Hour), most)
				return err
			})
		}
		return rounds
	}
	names := func(platform string) (out []string) {
		if err := read(t, d, func(q db.Queryer) error {
			for _, id := range []string{"1", "2", "3"} {
				u, err := c.User(q, platform, id)
				if err != nil && fault.KindOf(err) != fault.NotFound {
					return err
				}
				if err == nil {
					out = append(out, u.Name)
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return out
	}
	ada, bob, cy := surface.User{ID: "1", Name: "ada"}, surface.User{ID: "2", Name: "bob"}, surface.User{ID: "3", Name: "cy"}
	meet("discord", ada, bob, cy)
	meet("irc", ada)
	now = now.Add(100 * 24 * time.Hour)
	meet("discord", ada) // another message, under the same name
	now = now.Add(50 * 24 * time.Hour)
	bob.Name = "robert"
	meet("discord", bob)
	now = now.Add(60 * 24 * time.Hour)
	if trim(10); !slices.Equal(names("discord"), []string{"ada", "robert"}) || len(names("irc")) != 1 {
		t.Errorf("left: %v and %v", names("discord"), names("irc"))
	}
	var many []surface.User
	for i := range 2500 { // more than one call can delete
		many = append(many, surface.User{ID: fmt.Sprint(1000 + i), Name: "guest"})
	}
	meet("discord", many...)
	now = now.Add(48 * time.Hour)
	meet("discord", ada)
	if rounds := trim(2000); rounds != 1 || !slices.Equal(names("discord"), []string{"ada"}) {
		t.Errorf("left: %v, in %d rounds", names("discord"), rounds)
	}
	if rounds := trim(500); rounds < 2 || !slices.Equal(names("discord"), []string{"ada"}) {
		t.Errorf("left: %v, in %d rounds", names("discord"), rounds)
	}
}

// TrimMessages removes messages from the index and drops their references to files; the
// other messages stay unchanged. The age of a message starts again when it is updated.
func TestOldMessagesAreForgottenAndTheOthersAreFound(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	d, s := openAt(t, &now)
	c := store.SurfaceCache{}
	blob := strings.Repeat("a", 64)
	trim := func(before time.Time, most int) (rounds int) {
		for more := true; more; rounds++ {
			update(t, d, func(tx *db.Tx) (err error) { more, err = c.TrimMessages(tx, "discord", before, most); return err })
		}
		return rounds
	}
	found := func(query string) []string {
		return ids(t, d, func(q db.Queryer) ([]surface.Message, error) {
			return c.SearchMessages(q, "discord", []string{"10"}, query, 200)
		})
	}
	kept := func() []string {
		return ids(t, d, func(q db.Queryer) ([]surface.Message, error) { return c.Messages(q, "discord", "10", "", 200) })
	}
	referenced := func() (out map[string]bool) {
		if err := read(t, d, func(q db.Queryer) (err error) { out, err = s.Files.Referenced(q, []string{blob}); return err }); err != nil {
			t.Fatal(err)
		}
		return out
	}
	withFile := cached("1", "", "an apple a day")
	withFile.Attachments = []surface.Attachment{{ID: "f", URL: "u", Blob: store.BlobPrefix + blob}}
	elsewhere := cached("1", "", "an apple elsewhere")
	elsewhere.Platform = "irc"
	put(t, d, withFile, elsewhere, cached("2", "1", "apple pie"))
	now = now.Add(24 * time.Hour)
	edited := cached("2", "1", "apple cake")
	edited.EditedAt = now.UnixMilli()
	put(t, d, edited, cached("3", "2", "no fruit"))
	if len(referenced()) != 1 {
		t.Fatal("the file is not referred to: the test shows nothing")
	}
	trim(now.Add(-time.Hour), 1000)
	if got := kept(); !slices.Equal(got, []string{"3", "2"}) {
		t.Errorf("kept %v", got)
	}
	if got := found("apple"); !slices.Equal(got, []string{"2"}) || len(found("cake")) != 1 || len(found("pie")) != 0 {
		t.Errorf("found %v", got)
	}
	if len(referenced()) != 0 {
		t.Error("the file of a message that is forgotten is referred to")
	}
	if _, err := messageOf(t, d, "irc", "1"); err != nil {
		t.Errorf("of another platform: %v", err)
	}
	var many []surface.Message
	for i := range 1400 { // more than one call can delete
		many = append(many, cached(fmt.Sprint(1000+i), "", "apple"))
	}
	put(t, d, many...)
	if rounds := trim(now.Add(-time.Hour), 300); rounds < 2 {
		t.Errorf("%d rounds for 1100 messages", rounds)
	}
	if got := kept(); len(got) != 200 || got[0] != "2399" || len(found("apple")) != 200 || len(found("fruit")) != 0 {
		t.Errorf("kept %v", got)
	}
	if trim(now.Add(-time.Hour), 300); !slices.Contains(found("apple"), "2399") {
		t.Error("what is not too much was forgotten")
	}
}

func messageOf(t *testing.T, d *db.DB, platform, id string) (m surface.Message, err error) {
	t.Helper()
	err = read(t, d, func(q db.Queryer) error {
		m, err = store.SurfaceCache{}.Message(q, platform, "10", id)
		return err
	})
	return m, err
}

// DeleteSession also deletes the marks of forwarded platform messages and the requests that
// answered them.
func TestADeletedSessionHoldsNothingOfAPlatform(t *testing.T) {
	d, s := open(t)
	held := func() (forwarded, ran bool) {
		if err := read(t, d, func(q db.Queryer) (err error) {
			if forwarded, err = s.Forwarded.Forwarded(q, "discord", "10", "1"); err != nil {
				return err
			}
			ran, err = s.Requests.Ran(q, "10", "discord:10:1")
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return forwarded, ran
	}
	update(t, d, func(tx *db.Tx) error {
		return errors.Join(s.Sessions.CreateSession(tx, session.Session{ID: "10", Client: "discord"}),
			s.Requests.CreateRequest(tx, session.Request{ID: "discord:10:1", SessionID: "10", Client: "discord", State: event.StateDone}),
			s.Forwarded.MarkForwarded(tx, "discord", "10", []string{"1"}))
	})
	if forwarded, ran := held(); !forwarded || !ran {
		t.Errorf("before: %v, %v", forwarded, ran)
	}
	update(t, d, func(tx *db.Tx) error { return s.Forwarded.UnmarkForwarded(tx, "discord", "10", []string{"1"}) })
	if forwarded, _ := held(); forwarded {
		t.Error("what was taken back is still marked")
	}
	update(t, d, func(tx *db.Tx) error { return s.Forwarded.MarkForwarded(tx, "discord", "10", []string{"1"}) })
	update(t, d, func(tx *db.Tx) error { return s.Sessions.DeleteSession(tx, "10") })
	if forwarded, ran := held(); forwarded || ran {
		t.Errorf("after: %v, %v", forwarded, ran)
	}
}
