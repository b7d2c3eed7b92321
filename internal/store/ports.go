package store

import (
	"lilac/internal/core/clock"
	"lilac/internal/core/environment"
	"lilac/internal/core/files"
	"lilac/internal/core/interaction"
	"lilac/internal/core/outbox"
	"lilac/internal/core/relay"
	"lilac/internal/core/router"
	"lilac/internal/core/session"
	"lilac/internal/core/surface"
	"lilac/internal/core/task"
	"lilac/internal/core/workflow"
	"lilac/internal/serve/callables"
	"lilac/internal/serve/toolserver"
	"lilac/internal/surfaces/discord"
)

// Groups of tables for ports that read several of them.
type (
	// RouterTables implements [router.Table].
	RouterTables struct {
		RouterStates
		ForwardedMessages
		Requests
	}
	// InteractionTables implements [interaction.Sessions].
	InteractionTables struct {
		SessionStates
		Requests
		Mailbox
	}
	// AcceptedMessages implements the AcceptedTable of package httpapi, whose tests
	// import this package.
	AcceptedMessages struct {
		Mailbox
		SessionStates
	}
	// Conversations implements [callables.Conversations].
	Conversations struct {
		Sessions
		History
	}
)

// The ports that the tables implement.
var (
	_ = session.Tables{
		Sessions: Sessions{}, States: SessionStates{}, Mailbox: Mailbox{}, History: History{},
		Files: Files{}, Requests: Requests{}, Journal: Journal{}, Spending: Usage{},
	}
	_ task.Store               = Tasks{}
	_ workflow.Table           = Workflows{}
	_ workflow.Waits           = WorkflowWaits{}
	_ workflow.Replies         = HeldReplies{}
	_ environment.Inbox        = Inbox{}
	_ environment.Events       = RuleEvents{}
	_ clock.TimerStore         = Timers{}
	_ files.KnownFiles         = WatchedFiles{}
	_ outbox.Table             = Outbox{}
	_ relay.Table              = Relays{}
	_ router.Table             = RouterTables{}
	_ router.Inbox             = Inbox{}
	_ interaction.Sessions     = InteractionTables{}
	_ surface.MessageCache     = SurfaceCache{}
	_ surface.Directory        = SurfaceCache{}
	_                          = discord.TablesOf[Discord]
	_ toolserver.OperatorTable = OperatorTokens{}
	_ callables.Conversations  = Conversations{}
)
