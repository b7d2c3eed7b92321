package app

import (
	"fmt"
	"log/slog"

	"lilac/internal/builtin"
	"lilac/internal/config"
	"lilac/internal/sandbox"
	"lilac/internal/tool"
)

func newTools(cfg *config.Config, box sandbox.Sandbox, logger *slog.Logger) ([]tool.Tool, error) {
	tools, err := builtin.New(builtin.Options{
		Workspace: cfg.Workspace, Sandbox: box, Hidden: []string{cfg.DataDir}, Logger: logger,
	})
	if err != nil {
		return nil, fmt.Errorf("build the tools: %w", err)
	}
	return tools, nil
}
