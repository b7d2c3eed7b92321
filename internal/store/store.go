package store

import "lilac/internal/engine/db"

// Store groups the tables of one database. The table types have no state, so that a caller
// that needs only one table can use its zero value.
type Store struct {
	Sessions Sessions
	States   SessionStates
	Mailbox  Mailbox
	History  History
	Requests Requests
	Journal  Journal
	Files    Files
	Usage    Usage

	Tasks         Tasks
	Workflows     Workflows
	WorkflowWaits WorkflowWaits
	HeldReplies   HeldReplies

	RuleRuns     RuleRuns
	RuleEvents   RuleEvents
	RuleWaits    RuleWaits
	Timers       Timers
	WatchedFiles WatchedFiles

	Inbox        Inbox
	Outbox       Outbox
	Relays       Relays
	RouterStates RouterStates
	Forwarded    ForwardedMessages
	Marks        Marks
	Surface      SurfaceCache
	Discord      Discord
	Operators    OperatorTokens
	Pairings     Pairings

	db *db.DB
}

// New returns the tables of a database that was opened with [Migrations].
func New(database *db.DB) *Store { return &Store{db: database} }

// Migrations create the tables. Add new migrations at the end: the order must not change.
var Migrations = []db.Migration{
	inboxMigration, sessionsMigration, errorKindMigration, searchMigration, surfaceMigration, outboxMigration, routerMigration, relayMigration,
	budgetsMigration, checksumMigration, rulesMigration, discordMigration, searchLaterMigration, ageMigration, operatorsMigration,
	workflowsMigration, timersMigration, tasksMigration, filesMigration, operatorsExpireMigration, surfaceAgeMigration, refusalsMigration,
	watchedMigration, ruleChecksumMigration, peopleAgeMigration, ordersMigration, sessionsAgeMigration, acceptedMigration,
	outboxChannelsMigration, segmentMigration, conversationsMigration, marksMigration, choiceMigration, refusalErrorsMigration,
	promptsMigration, learnedMigration, pairingMigration, workspacesMigration, branchesMigration, filingMigration, callsMigration,
	accountsMigration, promptToolsMigration, lookupsMigration,
}
