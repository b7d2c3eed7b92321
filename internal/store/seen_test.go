package store_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/core/account"
	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
	"lilac/internal/store"
)

// A person finds, and lists, only what is shared with them. The control is the search for
// everything.
func TestAPersonFindsOnlyWhatTheyMaySee(t *testing.T) {
	d, s := open(t)
	for _, id := range []string{"s1", "s2", "s3"} {
		newSession(t, d, s, id, "The meadow "+id)
		say(t, d, s, id, "m-"+id, `{"role":"user","content":"Where is the meadow?"}`)
	}
	update(t, d, func(tx *db.Tx) error {
		for _, id := range []string{"s1", "s2", "s3"} {
			if err := s.Requests.CreateRequest(tx, session.Request{ID: "web:" + id + ":r", SessionID: id, Client: "web", CreatedAt: 5}); err != nil {
				return err
			}
		}
		for _, share := range []account.Share{{SessionID: "s1", PersonID: "ada", Right: account.Owner}, {SessionID: "s3", PersonID: "ada", Right: account.Read}, {SessionID: "s2", PersonID: "bob", Right: account.Owner}} {
			if err := (store.AccountShares{}).SaveShare(tx, share); err != nil {
				return err
			}
		}
		return s.History.IndexHistory(tx)
	})
	err := read(t, d, func(q db.Queryer) error {
		all, err := s.History.Search(q, "meadow", 10, 0)
		if err != nil || len(all) != 3 {
			t.Errorf("control: everything is %v, %v", all, err)
		}
		for person, want := range map[string][]string{"ada": {"s3", "s1"}, "bob": {"s2"}, "eve": nil, "": nil} {
			found, err := store.Seen{}.Search(q, person, "mead", 10, 0)
			if err != nil {
				return err
			}
			var got []string
			for _, f := range found {
				got = append(got, f.SessionID)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%q finds (-want +got)\n%s", person, diff)
			}
		}
		listed, err := store.Seen{}.Sessions(q, "ada", session.ListActive, 10, "")
		if err != nil || len(listed) != 2 {
			t.Errorf("ada's list is %v, %v", listed, err)
		}
		if next, err := (store.Seen{}).Sessions(q, "ada", session.ListActive, 10, session.PageToken(listed[0].UpdatedAt, listed[0].ID)); err != nil || len(next) != 1 || next[0].ID != listed[1].ID {
			t.Errorf("the next page is %v, %v", next, err)
		}
		if _, err := (store.Seen{}).Sessions(q, "ada", session.ListActive, 10, "s2"); fault.KindOf(err) != fault.NotFound {
			t.Errorf("a page after a hidden conversation: %v", err)
		}
		if titled, err := (store.Seen{}).SessionsTitled(q, "bob", "meadow", 10); err != nil || len(titled) != 1 || titled[0].ID != "s2" {
			t.Errorf("bob's titles are %v, %v", titled, err)
		}
		if requests, err := (store.Seen{}).Requests(q, "bob", "", 10, ""); err != nil || len(requests) != 1 || requests[0].SessionID != "s2" {
			t.Errorf("bob's requests are %v, %v", requests, err)
		}
		if requests, err := (store.Seen{}).Requests(q, "bob", "s1", 10, ""); err != nil || len(requests) != 0 {
			t.Errorf("bob's requests of another conversation are %v, %v", requests, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
