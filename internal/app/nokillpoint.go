//go:build !killpoints

package app

import (
	"net/http"

	"lilac/internal/config"
	"lilac/internal/session"
	"lilac/internal/tool"
)

func onCommit(*config.Config) func(bool) { return nil }

func onAnswer(h http.Handler) http.Handler { return h }

func onStore(s session.Store) session.Store { return s }

func weakenTools(tools []tool.Tool) []tool.Tool { return tools }
