// Package account holds the people of a team: who they are, how they sign in, which
// conversations they may see, and what they did.
//
// It promises:
//
//   - The operator's token needs no account. A server without people behaves as if this
//     package did not exist: it records nothing and looks up nobody.
//   - Secrets (the tokens of invites, logins, and links) are random, expire, and are stored
//     only as hashes. An invite works once.
//   - A conversation that a person may not see does not exist for that person: [Decide]
//     answers [NotFound], not that it is forbidden.
//   - Each change is recorded in the transaction that makes it.
//
// decide.go is pure: who may do what in a conversation. There is no state machine: a person
// is active or disabled, and an invite, a login, or a link exists or does not.
//
// Package httpapi calls the [Service], which is safe for concurrent use. Package store
// implements the tables.
package account
