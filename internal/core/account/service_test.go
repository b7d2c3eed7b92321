package account_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"lilac/internal/core/account"
	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
	"lilac/internal/store"
	"lilac/internal/testkit/dbtest"
)

// team is a service with real tables, and a clock that the test moves.
type team struct {
	*account.Service
	t   *testing.T
	db  *db.DB
	dir string
	now time.Time
}

func newTeam(t *testing.T) *team {
	t.Helper()
	w := &team{t: t, dir: t.TempDir(), now: time.UnixMilli(1_790_000_000_000)}
	var err error
	w.db, err = db.Open(t.Context(), dbtest.Options(db.Options{Dir: w.dir, Migrations: store.Migrations, Now: func() time.Time { return w.now }}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.db.Close() })
	w.Service = account.New(account.Options{DB: w.db, Tables: store.AccountTables(), Now: func() time.Time { return w.now }})
	return w
}

func (w *team) join(name string) (account.Person, string) {
	w.t.Helper()
	_, secret, err := w.Invite(w.t.Context(), account.Token, account.NewInvite{Name: name})
	if err != nil {
		w.t.Fatal(err)
	}
	p, login, err := w.Accept(w.t.Context(), secret)
	if err != nil {
		w.t.Fatal(err)
	}
	return p, login
}

func (w *team) refuses(what string, kind fault.Kind, err error) {
	w.t.Helper()
	if fault.KindOf(err) != kind {
		w.t.Errorf("%s: %v, want %s", what, err, kind)
	}
}

func (w *team) known(login string) bool {
	w.t.Helper()
	_, known, err := w.Caller(w.t.Context(), login)
	if err != nil {
		w.t.Fatal(err)
	}
	return known
}

func TestWithoutPeopleNothingIsRecorded(t *testing.T) {
	w := newTeam(t)
	if err := w.Load(t.Context()); err != nil || w.InUse() {
		t.Fatalf("in use: %v, %v", w.InUse(), err)
	}
	if err := w.db.Update(t.Context(), func(tx *db.Tx) error { return w.Note(tx, account.Token, account.Action{Kind: "cancel"}) }); err != nil {
		t.Fatal(err)
	}
	if found, err := w.Actions(t.Context(), 10, 0); err != nil || len(found) > 0 {
		t.Errorf("recorded: %v, %v", found, err)
	}
	w.join("Ada")
	found, err := w.Actions(t.Context(), 10, 0)
	if err != nil || len(found) != 2 || found[0].Kind != "sign-in" || found[0].PersonID != "ada" || found[1].Kind != "invite" || found[1].PersonID != "operator" {
		t.Errorf("recorded: %+v, %v", found, err)
	}
	if older, err := w.Actions(t.Context(), 10, found[0].ID); err != nil || len(older) != 1 {
		t.Errorf("the next page: %v, %v", older, err)
	}
	again := account.New(account.Options{DB: w.db, Tables: store.AccountTables()})
	if err := again.Load(t.Context()); err != nil || !again.InUse() {
		t.Errorf("after a restart, in use: %v, %v", again.InUse(), err)
	}
	w.now = w.now.Add(account.LogAge + time.Hour)
	if err := w.db.Update(t.Context(), func(tx *db.Tx) error {
		_, err := store.AccountLog{}.TrimActions(tx, tx.Now().Add(-account.LogAge))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if found, err := w.Actions(t.Context(), 10, 0); err != nil || len(found) > 0 {
		t.Errorf("after a year: %v, %v", found, err)
	}
}

func TestSecretsExpireAndAreStoredAsHashes(t *testing.T) {
	w := newTeam(t)
	ctx := t.Context()
	_, secret, err := w.Invite(ctx, account.Token, account.NewInvite{Name: "Ada"})
	if err != nil {
		t.Fatal(err)
	}
	w.now = w.now.Add(account.InviteAge)
	_, _, err = w.Accept(ctx, secret)
	w.refuses("an expired invite", fault.Unauthenticated, err)

	p, login := w.join("Ada")
	if !w.known(login) || w.known(login+"x") || w.known("") {
		t.Error("the login is not recognized")
	}
	_, link, err := w.NewLink(ctx, account.Token, "s", account.Read)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(w.dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err == nil && (bytes.Contains(data, []byte(login)) || bytes.Contains(data, []byte(link)) || bytes.Contains(data, []byte(secret))) {
			t.Errorf("%s has a secret", file)
		}
	}
	w.now = w.now.Add(account.LoginAge)
	if w.known(login) {
		t.Error("an expired login is known")
	}
	_, err = w.Join(ctx, account.Caller{ID: p.ID, Role: account.Member, Login: []byte("x")}, link)
	w.refuses("an expired link", fault.NotFound, err)
}

func TestTablesAreBounded(t *testing.T) {
	w := newTeam(t)
	ctx := t.Context()
	ada, first := w.join("Ada")
	var last string
	for range 20 {
		_, secret, err := w.Invite(ctx, account.Token, account.NewInvite{PersonID: ada.ID})
		if err != nil {
			t.Fatal(err)
		}
		w.now = w.now.Add(time.Second)
		if _, last, err = w.Accept(ctx, secret); err != nil {
			t.Fatal(err)
		}
	}
	if w.known(first) || !w.known(last) {
		t.Error("the oldest login does not end when there are too many")
	}
	var err error
	for range 201 {
		if _, _, err = w.Invite(ctx, account.Token, account.NewInvite{Name: "x"}); err != nil {
			break
		}
	}
	w.refuses("too many invites", fault.Conflict, err)
	for range 21 {
		if _, _, err = w.NewLink(ctx, account.Token, "s", account.Read); err != nil {
			break
		}
	}
	w.refuses("too many links", fault.Conflict, err)
}

func TestInvitesSayWhatIsWrong(t *testing.T) {
	w := newTeam(t)
	ctx := t.Context()
	for name, in := range map[string]account.NewInvite{
		"no name": {}, "a name of spaces": {Name: " \n "}, "a long name": {Name: fmt.Sprintf("%061d", 0)}, "another role": {Name: "Ada", Role: "king"},
	} {
		_, _, err := w.Invite(ctx, account.Token, in)
		w.refuses(name, fault.Invalid, err)
	}
	_, _, err := w.Invite(ctx, account.Token, account.NewInvite{PersonID: "nobody"})
	w.refuses("an unknown person", fault.NotFound, err)
	p, _ := w.join("Ada")
	disabled := true
	if _, err := w.Change(ctx, account.Token, p.ID, account.PersonChange{Disabled: &disabled}); err != nil {
		t.Fatal(err)
	}
	_, _, err = w.Invite(ctx, account.Token, account.NewInvite{PersonID: p.ID})
	w.refuses("a disabled person", fault.Conflict, err)
}

func TestSharesGiveRights(t *testing.T) {
	w := newTeam(t)
	ctx := t.Context()
	ada, _ := w.join("Ada")
	bob, login := w.join("Bob")
	caller, _, err := w.Caller(ctx, login)
	if err != nil {
		t.Fatal(err)
	}
	owner := account.Caller{ID: ada.ID, Role: account.Member, Login: []byte("x")}
	st := store.New(w.db)
	if err := w.db.Update(ctx, func(tx *db.Tx) error {
		if err := st.Sessions.CreateSession(tx, session.Session{ID: "s", Client: "web", Title: "plans"}); err != nil {
			return err
		}
		return w.Own(tx, owner, "s")
	}); err != nil {
		t.Fatal(err)
	}
	has := func(want account.Right) {
		t.Helper()
		if got, err := w.RightIn(ctx, bob.ID, "s"); err != nil || got != want {
			t.Errorf("Bob may %q, %v, want %q", got, err, want)
		}
		var seen []session.Session
		if err := w.db.Read(ctx, func(q db.Queryer) (err error) {
			seen, err = store.Seen{}.Sessions(q, bob.ID, session.ListActive, 10, "")
			return err
		}); err != nil || (len(seen) == 1) != (want != account.None) {
			t.Errorf("Bob sees %v, %v", seen, err)
		}
	}
	has(account.None)
	_, part, err := w.NewLink(ctx, owner, "s", account.Part)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Join(ctx, caller, part); err != nil {
		t.Fatal(err)
	}
	has(account.Part)
	_, read, err := w.NewLink(ctx, owner, "s", account.Read)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Join(ctx, caller, read); err != nil { // the larger right stays
		t.Fatal(err)
	}
	has(account.Part)
	if err := w.Share(ctx, owner, "s", bob.ID, account.Read); err != nil {
		t.Fatal(err)
	}
	has(account.Read)
	w.refuses("to own", fault.Invalid, w.Share(ctx, owner, "s", bob.ID, account.Owner))
	w.refuses("with the owner", fault.Conflict, w.Share(ctx, account.Token, "s", ada.ID, account.Read))
	w.refuses("the owner out", fault.Conflict, w.Unshare(ctx, account.Token, "s", ada.ID))
	w.refuses("with nobody", fault.NotFound, w.Share(ctx, owner, "s", "nobody", account.Read))
	w.refuses("a link of another conversation", fault.NotFound, w.DropLink(ctx, owner, "other", "x"))
	if err := w.Unshare(ctx, owner, "s", bob.ID); err != nil {
		t.Fatal(err)
	}
	has(account.None)
	// What is deleted is shared with nobody, also if its id came back.
	if err := w.db.Update(ctx, func(tx *db.Tx) error { return st.Sessions.DeleteSession(tx, "s") }); err != nil {
		t.Fatal(err)
	}
	if all, err := w.Sharing(ctx, "s"); err != nil || len(all.People)+len(all.Links) > 0 {
		t.Errorf("after the deletion: %+v, %v", all, err)
	}
}

func TestAPersonOfAProviderStaysTheSame(t *testing.T) {
	w := newTeam(t)
	ctx := t.Context()
	who := account.Subject{ID: "https://id.example 1", Email: "ada@team.example", Name: "Ada", Role: account.Member}
	first, login, err := w.SignIn(ctx, who)
	if err != nil || !w.known(login) {
		t.Fatal(err)
	}
	who.Email, who.Name, who.Role = "lovelace@team.example", "Ada L.", account.Operator
	again, _, err := w.SignIn(ctx, who)
	if err != nil || again.ID != first.ID || again.Role != account.Member || again.Email != "lovelace@team.example" || again.Name != "Ada L." {
		t.Errorf("%+v, %v", again, err)
	}
	who.Name = "" // the provider names nobody
	if again, _, err = w.SignIn(ctx, who); err != nil || again.Name != "Ada L." {
		t.Errorf("without a name: %+v, %v", again, err)
	}
	who.Sync = true // now the provider's groups decide
	if again, _, err = w.SignIn(ctx, who); err != nil || again.Role != account.Operator {
		t.Errorf("an operator at the provider: %+v, %v", again, err)
	}
	who.Role = account.Member
	if again, _, err = w.SignIn(ctx, who); err != nil || again.Role != account.Member {
		t.Errorf("not an operator any more: %+v, %v", again, err)
	}
	other, _, err := w.SignIn(ctx, account.Subject{ID: "https://id.example 2", Name: "Ada"})
	if err != nil || other.ID == first.ID {
		t.Errorf("%+v, %v", other, err)
	}
	disabled := true
	if _, err := w.Change(ctx, account.Token, first.ID, account.PersonChange{Disabled: &disabled}); err != nil {
		t.Fatal(err)
	}
	_, _, err = w.SignIn(ctx, who)
	w.refuses("a disabled person", fault.Denied, err)
	if w.known(login) {
		t.Error("a disabled person is still signed in")
	}
}

func TestALoginEndsWhenTheProviderSaysSo(t *testing.T) {
	w := newTeam(t)
	w.Start()
	ctx := t.Context()
	who := account.Subject{ID: "https://id.example 1", Name: "Ada", Role: account.Member, Stay: time.Hour}
	_, long, err := w.SignIn(ctx, account.Subject{ID: "https://id.example 2", Name: "Bob", Role: account.Member})
	if err != nil {
		t.Fatal(err)
	}
	_, brief, err := w.SignIn(ctx, who)
	if err != nil || !w.known(brief) {
		t.Fatal(err)
	}
	w.now = w.now.Add(time.Hour)
	if w.known(brief) || !w.known(long) {
		t.Error("the logins last as if nobody had said how long")
	}
	_, again, err := w.SignIn(ctx, who)
	if err != nil || !w.known(again) {
		t.Fatal(err)
	}
	for _, subject := range []string{"https://id.example 3", who.ID} {
		if err := w.SignOutSubject(ctx, subject); err != nil {
			t.Errorf("%s: %v", subject, err)
		}
	}
	if w.known(again) || !w.known(long) {
		t.Error("the wrong person is signed out")
	}
	actions, err := w.Actions(ctx, 1, 0)
	if err != nil || len(actions) != 1 || actions[0].Kind != "sign-out" || actions[0].PersonID != "ada" {
		t.Errorf("%+v, %v", actions, err)
	}
}
