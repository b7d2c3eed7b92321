package app

import (
	"time"
	_ "time/tzdata" // limits.timeZone works on a machine without a zone database

	"lilac/internal/core/session"
	"lilac/internal/operate/config"
)

// runnerSettings returns the settings of the runner that may change at runtime.
func runnerSettings(cfg *config.Config) session.Settings {
	return session.Settings{
		System: cfg.System, Limits: cfg.Limits.Limits(),
		ToolTimeout: time.Duration(cfg.Limits.Tool), CompactAt: cfg.CompactAt, Answer: cfg.Limits.Bounds(),
	}
}
