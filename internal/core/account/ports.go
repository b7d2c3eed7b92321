package account

import (
	"lilac/internal/engine/db"
)

// PeopleTable stores people. Each method returns a fault.NotFound for an unknown id.
type PeopleTable interface {
	AddPerson(tx *db.Tx, p Person) error
	Person(q db.Queryer, id string) (Person, error)
	// PersonOf finds the person of a subject of an OIDC provider.
	PersonOf(q db.Queryer, subject string) (Person, error)
	// People lists everybody by name.
	People(q db.Queryer) ([]Person, error)
	SavePerson(tx *db.Tx, p Person) error
}

// SecretTable stores invites and logins under the hashes of their secrets.
type SecretTable interface {
	AddInvite(tx *db.Tx, i Invite, hash []byte) error
	InviteOf(q db.Queryer, hash []byte) (Invite, error)
	// Invites lists those that have not expired, the newest first.
	Invites(q db.Queryer, now int64) ([]Invite, error)
	DropInvite(tx *db.Tx, id string) error

	// AddLogin adds a login, and ends the oldest ones of a person who has more than most.
	AddLogin(tx *db.Tx, l Login, hash []byte, most int) error
	LoginOf(q db.Queryer, hash []byte) (Login, error)
	DropLogin(tx *db.Tx, hash []byte) error
	DropLogins(tx *db.Tx, personID string) error
}

// ShareTable stores who may do what in which conversation.
type ShareTable interface {
	// RightOf returns None for a person without a right.
	RightOf(q db.Queryer, sessionID, personID string) (Right, error)
	SaveShare(tx *db.Tx, s Share) error
	DropShare(tx *db.Tx, sessionID, personID string) error
	// Shares lists the people of a conversation, the owner first.
	Shares(q db.Queryer, sessionID string) ([]Share, error)

	AddLink(tx *db.Tx, l Link, hash []byte) error
	LinkOf(q db.Queryer, hash []byte) (Link, error)
	Links(q db.Queryer, sessionID string, now int64) ([]Link, error)
	// DropLink also drops the rights of the people who came through the link.
	DropLink(tx *db.Tx, sessionID, id string) error
}

// LogTable stores what people did.
type LogTable interface {
	AddAction(tx *db.Tx, a Action) error
	// Actions lists the newest first, before a row; 0 means from the newest on.
	Actions(q db.Queryer, limit int, before int64) ([]Action, error)
}

// Tables are the tables of accounts.
type Tables struct {
	People  PeopleTable
	Secrets SecretTable
	Shares  ShareTable
	Log     LogTable
}
