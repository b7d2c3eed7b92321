//go:build !killpoints

package app

import (
	"context"
	"net/http"

	"lilac/internal/agent/tool"
	"lilac/internal/core/environment"
	"lilac/internal/core/outbox"
	"lilac/internal/core/relay"
	"lilac/internal/core/router"
	"lilac/internal/core/session"
	"lilac/internal/core/surface"
	"lilac/internal/core/task"
	"lilac/internal/core/workflow"
	"lilac/internal/engine/db"
	"lilac/internal/operate/config"
	"lilac/internal/surfaces/discord"
)

func onCommit(*config.Config) func(bool) { return nil }

func onAnswer(h http.Handler) http.Handler { return h }

func onRunnerTables(t session.Tables) session.Tables { return t }

func onInbox(i environment.Inbox) environment.Inbox { return i }

func onTasks(s task.Store) task.Store { return s }

func onTold(_ *db.DB, tell task.Publish) task.Publish { return tell }

func onRecovery(recover func(context.Context) error) func(context.Context) error { return recover }
func onDiscord(t discord.Tables) discord.Tables                                  { return t }

func onRouter(t router.Table) router.Table { return t }

func onRelay(t relay.Table) relay.Table { return t }

func onOutbox(t outbox.Table) outbox.Table { return t }

func onWorkflows(t workflow.Table) workflow.Table { return t }

func onCalls() *http.Client { return &http.Client{} }

func weakenAdapter(a surface.Adapter) surface.Adapter { return a }

func weakenTools(tools []tool.Tool) []tool.Tool { return tools }
