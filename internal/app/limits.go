package app

import (
	"math"
	"time"
	_ "time/tzdata" // limits.timeZone works on a machine without a zone database

	"lilac/internal/agent"
	"lilac/internal/core/session"
	"lilac/internal/operate/config"
)

// runnerSettings returns the settings of the runner that may change at runtime.
func runnerSettings(cfg *config.Config) session.Settings {
	l := cfg.Limits
	zone, err := l.Zone()
	if err != nil {
		zone = time.UTC // validation has rejected invalid zones
	}
	return session.Settings{
		System: cfg.System,
		Limits: session.Limits{
			Request: budget(l.Request), Session: budget(l.Session), Day: budget(l.Day),
			Zone: zone, Wait: time.Duration(l.Wait),
		},
		ToolTimeout: time.Duration(l.Tool), CompactAt: cfg.CompactAt,
		Answer: agent.Bounds{Text: int(l.Answer.Text), Thinking: int(l.Answer.Thinking), Arguments: int(l.Answer.Arguments), Repeats: l.Repeats},
	}
}

func budget(b config.Budget) session.Budget {
	return session.Budget{Steps: b.Steps, Tokens: b.Tokens, CostMicros: micros(b.Money), Time: time.Duration(b.Time)}
}

// micros converts dollars to millionths, rounded up so that a limit never becomes 0,
// which means none.
func micros(dollars float64) int64 { return int64(math.Ceil(dollars * 1e6)) }
