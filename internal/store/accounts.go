package store

import (
	"lilac/internal/core/account"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
)

// accountsMigration creates the tables of people with accounts. Secrets are stored as hashes.
var accountsMigration = db.Migration{Name: "account.0001-people", SQL: `
CREATE TABLE account_people (
	id         TEXT PRIMARY KEY,
	name       TEXT NOT NULL,
	role       TEXT NOT NULL,
	created_at INTEGER NOT NULL,
	disabled   INTEGER NOT NULL,
	seen_at    INTEGER NOT NULL,
	email      TEXT NOT NULL,
	subject    TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX account_people_subject ON account_people (subject) WHERE subject <> '';
CREATE TABLE account_invites (
	hash       BLOB PRIMARY KEY,
	id         TEXT NOT NULL UNIQUE,
	name       TEXT NOT NULL,
	role       TEXT NOT NULL,
	person_id  TEXT NOT NULL,
	created_by TEXT NOT NULL,
	created_at INTEGER NOT NULL,
	expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE account_logins (
	hash       BLOB PRIMARY KEY,
	person_id  TEXT NOT NULL,
	created_at INTEGER NOT NULL,
	expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX account_logins_person ON account_logins (person_id, created_at);
CREATE TABLE account_shares (
	session_id TEXT NOT NULL,
	person_id  TEXT NOT NULL,
	access     TEXT NOT NULL,
	link       TEXT NOT NULL,
	created_at INTEGER NOT NULL,
	PRIMARY KEY (session_id, person_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX account_shares_person ON account_shares (person_id, session_id);
CREATE TABLE account_links (
	hash       BLOB PRIMARY KEY,
	id         TEXT NOT NULL UNIQUE,
	session_id TEXT NOT NULL,
	access     TEXT NOT NULL,
	created_by TEXT NOT NULL,
	created_at INTEGER NOT NULL,
	expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX account_links_session ON account_links (session_id);
CREATE TABLE account_log (
	row        INTEGER PRIMARY KEY,
	at         INTEGER NOT NULL,
	person_id  TEXT NOT NULL,
	kind       TEXT NOT NULL,
	session_id TEXT NOT NULL,
	subject    TEXT NOT NULL,
	detail     TEXT NOT NULL
) STRICT;
`}

// AccountPeople is the table of people with accounts.
type AccountPeople struct{}

const personColumns = `id, name, role, created_at, disabled, seen_at, email, subject`

func scanPerson(r scanner) (p account.Person, err error) {
	var disabled int64
	err = r.Scan(&p.ID, &p.Name, &p.Role, &p.CreatedAt, &disabled, &p.SeenAt, &p.Email, &p.Subject)
	p.Disabled = disabled == 1
	return p, err
}

// AddPerson implements [account.PeopleTable].
func (AccountPeople) AddPerson(tx *db.Tx, p account.Person) error {
	_, err := tx.Exec(`INSERT INTO account_people (`+personColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
		p.ID, p.Name, p.Role, p.CreatedAt, p.Disabled, p.SeenAt, p.Email, p.Subject)
	return wrap("add person", err)
}

// SavePerson implements [account.PeopleTable].
func (AccountPeople) SavePerson(tx *db.Tx, p account.Person) error {
	_, err := tx.Exec(`UPDATE account_people SET name = ?, role = ?, disabled = ?, seen_at = ?, email = ? WHERE id = ?`,
		p.Name, p.Role, p.Disabled, p.SeenAt, p.Email, p.ID)
	return wrap("save person", err)
}

// Person implements [account.PeopleTable].
func (AccountPeople) Person(q db.Queryer, id string) (account.Person, error) {
	p, err := scanPerson(q.QueryRow(`SELECT `+personColumns+` FROM account_people WHERE id = ?`, id))
	return p, wrap("read person", notFound(err, "There is no account with the id %q. \"lilac accounts list\" shows the ids.", id))
}

// PersonOf implements [account.PeopleTable].
func (AccountPeople) PersonOf(q db.Queryer, subject string) (account.Person, error) {
	p, err := scanPerson(q.QueryRow(`SELECT `+personColumns+` FROM account_people WHERE subject = ? AND subject <> ''`, subject))
	return p, wrap("read person", notFound(err, "There is no such account."))
}

// People implements [account.PeopleTable].
func (AccountPeople) People(q db.Queryer) ([]account.Person, error) {
	out, err := collect(q, scanPerson, `SELECT `+personColumns+` FROM account_people ORDER BY name, id`)
	return out, wrap("list people", err)
}

// AccountSecrets groups the tables of invites and logins.
type AccountSecrets struct{}

const inviteColumns = `id, name, role, person_id, created_by, created_at, expires_at`

func scanInvite(r scanner) (i account.Invite, err error) {
	return i, r.Scan(&i.ID, &i.Name, &i.Role, &i.PersonID, &i.CreatedBy, &i.CreatedAt, &i.ExpiresAt)
}

// AddInvite implements [account.SecretTable]. It deletes those that have expired.
func (AccountSecrets) AddInvite(tx *db.Tx, i account.Invite, hash []byte) error {
	if _, err := tx.Exec(`DELETE FROM account_invites WHERE expires_at <= ?`, i.CreatedAt); err != nil {
		return wrap("delete invites", err)
	}
	_, err := tx.Exec(`INSERT INTO account_invites (hash, `+inviteColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
		hash, i.ID, i.Name, i.Role, i.PersonID, i.CreatedBy, i.CreatedAt, i.ExpiresAt)
	return wrap("add invite", err)
}

// InviteOf implements [account.SecretTable].
func (AccountSecrets) InviteOf(q db.Queryer, hash []byte) (account.Invite, error) {
	i, err := scanInvite(q.QueryRow(`SELECT `+inviteColumns+` FROM account_invites WHERE hash = ?`, hash))
	return i, wrap("read invite", notFound(err, "There is no such invite."))
}

// Invites implements [account.SecretTable].
func (AccountSecrets) Invites(q db.Queryer, now int64) ([]account.Invite, error) {
	out, err := collect(q, scanInvite, `SELECT `+inviteColumns+` FROM account_invites WHERE expires_at > ? ORDER BY created_at DESC, id`, now)
	return out, wrap("list invites", err)
}

// DropInvite implements [account.SecretTable].
func (AccountSecrets) DropInvite(tx *db.Tx, id string) error {
	return dropOne(tx, "invite", id, `DELETE FROM account_invites WHERE id = ?`, id)
}

// AddLogin implements [account.SecretTable]. It deletes those that have expired.
func (AccountSecrets) AddLogin(tx *db.Tx, l account.Login, hash []byte, most int) error {
	if _, err := tx.Exec(`DELETE FROM account_logins WHERE expires_at <= ?`, l.CreatedAt); err != nil {
		return wrap("delete logins", err)
	}
	if _, err := tx.Exec(`DELETE FROM account_logins WHERE hash IN
		(SELECT hash FROM account_logins WHERE person_id = ? ORDER BY created_at DESC, hash LIMIT 1000000 OFFSET ?)`, l.PersonID, most-1); err != nil {
		return wrap("delete logins", err)
	}
	_, err := tx.Exec(`INSERT INTO account_logins (hash, person_id, created_at, expires_at) VALUES (?, ?, ?, ?)`, hash, l.PersonID, l.CreatedAt, l.ExpiresAt)
	return wrap("add login", err)
}

// LoginOf implements [account.SecretTable].
func (AccountSecrets) LoginOf(q db.Queryer, hash []byte) (l account.Login, err error) {
	err = q.QueryRow(`SELECT person_id, created_at, expires_at FROM account_logins WHERE hash = ?`, hash).Scan(&l.PersonID, &l.CreatedAt, &l.ExpiresAt)
	return l, wrap("read login", notFound(err, "There is no such login."))
}

// DropLogin implements [account.SecretTable].
func (AccountSecrets) DropLogin(tx *db.Tx, hash []byte) error {
	_, err := tx.Exec(`DELETE FROM account_logins WHERE hash = ?`, hash)
	return wrap("end login", err)
}

// DropLogins implements [account.SecretTable].
func (AccountSecrets) DropLogins(tx *db.Tx, personID string) error {
	_, err := tx.Exec(`DELETE FROM account_logins WHERE person_id = ?`, personID)
	return wrap("end logins", err)
}

// dropOne deletes a row that a person has named, or says that there is none.
func dropOne(tx *db.Tx, what, id, statement string, args ...any) error {
	done, err := changed(tx.Exec(statement, args...))
	if err == nil && !done {
		return fault.New(fault.NotFound, "There is no %s %q.", what, id)
	}
	return wrap("drop "+what, err)
}
