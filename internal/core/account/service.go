package account

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
)

// Options configure the service.
type Options struct {
	DB     *db.DB
	Tables Tables
	// Payer returns the session that the session of a sub-agent works for, or "". It may be nil.
	Payer func(q db.Queryer, sessionID string) (string, error)
	Now   func() time.Time
}

// Service manages people, what they may see, and the record of what they did.
type Service struct {
	db    *db.DB
	t     Tables
	payer func(q db.Queryer, sessionID string) (string, error)
	now   func() time.Time
	// inUse becomes true with the first person or invite, and stays so.
	inUse atomic.Bool
}

// New returns the service. Call [Service.Load] before it is used.
func New(o Options) *Service {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Payer == nil {
		o.Payer = func(db.Queryer, string) (string, error) { return "", nil }
	}
	return &Service{db: o.DB, t: o.Tables, payer: o.Payer, now: o.Now}
}

// Load finds out whether there are accounts.
func (s *Service) Load(ctx context.Context) error {
	return s.db.Read(ctx, func(q db.Queryer) error {
		people, err := s.t.People.People(q)
		if err != nil {
			return fmt.Errorf("find accounts: %w", err)
		}
		invites, err := s.t.Secrets.Invites(q, s.now().UnixMilli())
		if len(people)+len(invites) > 0 {
			s.inUse.Store(true)
		}
		return err
	})
}

// InUse reports whether there are people or invites. Without them, nothing is recorded.
func (s *Service) InUse() bool { return s.inUse.Load() }

// Start makes the service record actions from now on, because people can sign in by other means
// than an invite.
func (s *Service) Start() { s.inUse.Store(true) }

// errSecret refuses a secret that is unknown, expired, or used.
func errSecret(what string) error {
	return &fault.Error{Kind: fault.Unauthenticated, Code: "bad_secret", Message: "This " + what + " is invalid, used or expired. Ask for a new one."}
}

// NewInvite is a request for an invite.
type NewInvite struct {
	Name string `json:"name,omitempty"`
	Role Role   `json:"role,omitempty"`
	// PersonID is a person who gets a new login instead of a new account.
	PersonID string `json:"personId,omitempty"`
}

// Invite creates an invite, and returns its secret, which is in no table.
func (s *Service) Invite(ctx context.Context, by Caller, in NewInvite) (i Invite, secret string, err error) {
	now := s.now()
	secret = newSecret()
	err = s.db.Update(ctx, func(tx *db.Tx) error {
		i = Invite{ID: newID(), Name: in.Name, Role: in.Role, PersonID: in.PersonID, CreatedBy: by.ID, CreatedAt: now.UnixMilli(), ExpiresAt: now.Add(InviteAge).UnixMilli()}
		if err := s.checkInvite(tx, &i); err != nil {
			return err
		}
		waiting, err := s.t.Secrets.Invites(tx, now.UnixMilli())
		if err != nil {
			return err
		}
		if len(waiting) >= maxInvites {
			return fault.New(fault.Conflict, "%d invites have not been used yet. Drop some first.", len(waiting))
		}
		if err := s.t.Secrets.AddInvite(tx, i, hash(secret)); err != nil {
			return err
		}
		s.inUse.Store(true)
		return s.Note(tx, by, Action{Kind: "invite", Subject: i.ID, Detail: i.Name + ", " + string(i.Role)})
	})
	return i, secret, err
}

// checkInvite checks and completes an invite.
func (s *Service) checkInvite(q db.Queryer, i *Invite) (err error) {
	if i.PersonID != "" {
		p, err := s.t.People.Person(q, i.PersonID)
		if err != nil {
			return err
		}
		if p.Disabled {
			return fault.New(fault.Conflict, "The account %s is disabled. Enable it first.", p.ID)
		}
		i.Name, i.Role = p.Name, p.Role
		return nil
	}
	if i.Name, err = cleanName(i.Name); err != nil {
		return err
	}
	if i.Role == "" {
		i.Role = Member
	}
	if !i.Role.Valid() {
		return badRole(i.Role)
	}
	return nil
}

func badRole(r Role) error {
	return fault.InvalidField("role", "There is no role %q. Use operator or member.", r)
}

// Invites lists the invites that can still be used, the newest first.
func (s *Service) Invites(ctx context.Context) (out []Invite, err error) {
	err = s.db.Read(ctx, func(q db.Queryer) (err error) {
		out, err = s.t.Secrets.Invites(q, s.now().UnixMilli())
		return err
	})
	return out, err
}

// DropInvite makes an invite useless.
func (s *Service) DropInvite(ctx context.Context, by Caller, id string) error {
	return s.db.Update(ctx, func(tx *db.Tx) error {
		if err := s.t.Secrets.DropInvite(tx, id); err != nil {
			return err
		}
		return s.Note(tx, by, Action{Kind: "drop-invite", Subject: id})
	})
}

// InviteOf returns the invite with a secret, which stays usable.
func (s *Service) InviteOf(ctx context.Context, secret string) (i Invite, err error) {
	err = s.db.Read(ctx, func(q db.Queryer) (err error) {
		i, err = s.invite(q, secret)
		return err
	})
	return i, err
}

func (s *Service) invite(q db.Queryer, secret string) (Invite, error) {
	i, err := s.t.Secrets.InviteOf(q, hash(secret))
	if fault.KindOf(err) == fault.NotFound || err == nil && i.ExpiresAt <= s.now().UnixMilli() {
		return Invite{}, errSecret("invite")
	}
	return i, err
}

// Accept uses an invite: it creates the person, or finds the one whom the invite is for, and
// returns the secret of a login.
func (s *Service) Accept(ctx context.Context, secret string) (p Person, login string, err error) {
	err = s.db.Update(ctx, func(tx *db.Tx) error {
		i, err := s.invite(tx, secret)
		if err != nil {
			return err
		}
		if err := s.t.Secrets.DropInvite(tx, i.ID); err != nil {
			return err
		}
		if i.PersonID != "" {
			p, err = s.t.People.Person(tx, i.PersonID)
		} else {
			p, err = s.add(tx, Person{Name: i.Name, Role: i.Role})
		}
		if err != nil {
			return err
		}
		login, err = s.signIn(tx, &p, "invite "+i.ID, LoginAge)
		return err
	})
	return p, login, err
}

// add creates a person with a new id.
func (s *Service) add(tx *db.Tx, p Person) (Person, error) {
	all, err := s.t.People.People(tx)
	if err != nil {
		return p, err
	}
	if len(all) >= maxPeople {
		return p, fault.New(fault.Conflict, "There are %d accounts already, which is the maximum.", len(all))
	}
	taken := map[string]bool{}
	for _, one := range all {
		taken[one.ID] = true
	}
	p.ID, p.CreatedAt = idFor(p.Name, func(id string) bool { return taken[id] }), s.now().UnixMilli()
	s.inUse.Store(true)
	return p, s.t.People.AddPerson(tx, p)
}

// signIn creates a login of a person.
func (s *Service) signIn(tx *db.Tx, p *Person, how string, stay time.Duration) (secret string, err error) {
	if p.Disabled {
		return "", &fault.Error{Kind: fault.Denied, Code: "disabled", Message: "This account is disabled. Ask an operator."}
	}
	now := s.now()
	p.SeenAt = now.UnixMilli()
	if err := s.t.People.SavePerson(tx, *p); err != nil {
		return "", err
	}
	secret = newSecret()
	login := Login{PersonID: p.ID, CreatedAt: now.UnixMilli(), ExpiresAt: now.Add(stay).UnixMilli()}
	if err := s.t.Secrets.AddLogin(tx, login, hash(secret), maxLogins); err != nil {
		return "", err
	}
	return secret, s.Note(tx, Caller{ID: p.ID}, Action{Kind: "sign-in", Detail: how})
}

// Subject is a person whom an OIDC provider has identified.
type Subject struct {
	// ID is the issuer and its id of the person.
	ID, Email, Name string
	// Role is that of a new person, or with Sync of the person from now on.
	Role Role
	Sync bool
	// Stay is the lifetime of the login; 0 means [LoginAge].
	Stay time.Duration
}

// SignIn signs in the person of a subject, and creates the person if there is none. The person gets
// the address and the name that the provider knows now.
func (s *Service) SignIn(ctx context.Context, who Subject) (p Person, login string, err error) {
	err = s.db.Update(ctx, func(tx *db.Tx) error {
		p, err = s.t.People.PersonOf(tx, who.ID)
		if fault.KindOf(err) == fault.NotFound {
			name, bad := cleanName(who.Name)
			if bad != nil {
				name, bad = cleanName(who.Email)
			}
			if bad != nil {
				name = "Somebody"
			}
			p, err = s.add(tx, Person{Name: name, Role: who.Role, Email: who.Email, Subject: who.ID})
		}
		if err != nil {
			return err
		}
		p.Email = who.Email
		if name, bad := cleanName(who.Name); bad == nil {
			p.Name = name
		}
		var noted error
		if who.Sync && p.Role != who.Role {
			p.Role = who.Role
			noted = s.Note(tx, Caller{ID: p.ID}, Action{Kind: "role", Subject: p.ID, Detail: string(p.Role) + " (OIDC)"})
		}
		login, err = s.signIn(tx, &p, "OIDC", cmp.Or(who.Stay, LoginAge))
		return errors.Join(noted, err)
	})
	return p, login, err
}

// SignOut ends the login of a caller.
func (s *Service) SignOut(ctx context.Context, by Caller) error {
	return s.db.Update(ctx, func(tx *db.Tx) error {
		if err := s.t.Secrets.DropLogin(tx, by.Login); err != nil {
			return err
		}
		return s.Note(tx, by, Action{Kind: "sign-out"})
	})
}

// SignOutSubject ends all logins of a person, because the OIDC provider says so.
func (s *Service) SignOutSubject(ctx context.Context, subject string) error {
	return s.db.Update(ctx, func(tx *db.Tx) error {
		p, err := s.t.People.PersonOf(tx, subject)
		if fault.KindOf(err) == fault.NotFound { // somebody who never signed in here
			return nil
		}
		if err != nil {
			return err
		}
		return errors.Join(s.t.Secrets.DropLogins(tx, p.ID), s.Note(tx, Caller{ID: p.ID}, Action{Kind: "sign-out", Detail: "OIDC"}))
	})
}

// Caller returns the person with a login. known is false if the login is unknown or expired, or
// the person is disabled.
func (s *Service) Caller(ctx context.Context, login string) (c Caller, known bool, err error) {
	return s.callerOf(ctx, hash(login))
}

// Again looks up a caller again, whose login may have ended or whose role may have changed.
func (s *Service) Again(ctx context.Context, c Caller) (now Caller, known bool, err error) {
	if !c.HasAccount() {
		return c, true, nil
	}
	return s.callerOf(ctx, c.Login)
}

func (s *Service) callerOf(ctx context.Context, login []byte) (c Caller, known bool, err error) {
	err = s.db.Read(ctx, func(q db.Queryer) error {
		l, err := s.t.Secrets.LoginOf(q, login)
		if err != nil || l.ExpiresAt <= s.now().UnixMilli() {
			return err
		}
		p, err := s.t.People.Person(q, l.PersonID)
		if err == nil && !p.Disabled {
			c, known = Caller{ID: p.ID, Name: p.Name, Role: p.Role, Login: login}, true
		}
		return err
	})
	if fault.KindOf(err) == fault.NotFound {
		return Caller{}, false, nil
	}
	return c, known, err
}

// People lists everybody by name.
func (s *Service) People(ctx context.Context) (out []Person, err error) {
	err = s.db.Read(ctx, func(q db.Queryer) (err error) {
		out, err = s.t.People.People(q)
		return err
	})
	return out, err
}

// PersonChange has the fields to change; absent ones stay as they are.
type PersonChange struct {
	Role     *Role `json:"role,omitempty"`
	Disabled *bool `json:"disabled,omitempty"`
}

// Change changes a person. Somebody who is disabled is signed out everywhere at once.
func (s *Service) Change(ctx context.Context, by Caller, id string, in PersonChange) (p Person, err error) {
	if in.Role == nil && in.Disabled == nil {
		return p, fault.InvalidField("role", "Nothing to change: send role or disabled.")
	}
	if in.Role != nil && !in.Role.Valid() {
		return p, badRole(*in.Role)
	}
	if by.ID == id && by.HasAccount() {
		return p, fault.New(fault.Denied, "You cannot change your own role, or disable yourself. Ask another operator.")
	}
	err = s.db.Update(ctx, func(tx *db.Tx) error {
		if p, err = s.t.People.Person(tx, id); err != nil {
			return err
		}
		var noted error
		if in.Role != nil && *in.Role != p.Role {
			p.Role = *in.Role
			noted = s.Note(tx, by, Action{Kind: "role", Subject: id, Detail: string(p.Role)})
		}
		if in.Disabled != nil && *in.Disabled != p.Disabled {
			p.Disabled = *in.Disabled
			kind := "enable"
			if p.Disabled {
				kind = "disable"
				noted = errors.Join(noted, s.t.Secrets.DropLogins(tx, id))
			}
			noted = errors.Join(noted, s.Note(tx, by, Action{Kind: kind, Subject: id}))
		}
		return errors.Join(noted, s.t.People.SavePerson(tx, p))
	})
	return p, err
}

// Note records an action in the transaction of what it records. It does nothing on a server
// without accounts.
func (s *Service) Note(tx *db.Tx, by Caller, a Action) error {
	if !s.InUse() {
		return nil
	}
	a.At, a.PersonID = tx.Now().UnixMilli(), by.ID
	return s.t.Log.AddAction(tx, a)
}

// Actions lists what people did, the newest first, before a row; 0 means from the newest on.
func (s *Service) Actions(ctx context.Context, limit int, before int64) (out []Action, err error) {
	err = s.db.Read(ctx, func(q db.Queryer) (err error) {
		out, err = s.t.Log.Actions(q, limit, before)
		return err
	})
	return out, err
}
