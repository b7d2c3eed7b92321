package task

import (
	"errors"
	"fmt"
	"time"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/setting"
)

// Config is the section "tasks" of the configuration.
type Config struct {
	PerSession int              `json:"perSession,omitempty" jsonschema:"Maximum number of tasks that run at once in one conversation."`
	Total      int              `json:"total,omitempty" jsonschema:"Maximum number of tasks that run at once in all conversations together."`
	Time       setting.Duration `json:"time,omitempty" jsonschema:"Default time limit for a task."`
	MaxTime    setting.Duration `json:"maxTime,omitempty" jsonschema:"Maximum time limit that a task may request."`
	Output     setting.Size     `json:"output,omitempty" jsonschema:"How much output of a command is kept; the oldest is dropped first."`
	Keep       setting.Duration `json:"keep,omitempty" jsonschema:"How long a finished task is kept, including its output and its sub-agent's conversation."`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		PerSession: 8, Total: 32, Time: setting.Duration(time.Hour), MaxTime: setting.Duration(24 * time.Hour),
		Output: 10 << 20, Keep: setting.Duration(7 * 24 * time.Hour),
	}
}

// Check rejects limits under which no task could run.
func (c Config) Check() error {
	var found []error
	for _, limit := range []struct {
		field      string
		value, min int64
		least      string
	}{
		{"tasks.perSession", int64(c.PerSession), 1, "1"},
		{"tasks.total", int64(c.Total), 1, "1"},
		{"tasks.time", int64(c.Time), int64(time.Second), "1s"},
		{"tasks.maxTime", int64(c.MaxTime), int64(c.Time), fmt.Sprintf("tasks.time, which is %s", c.Time)},
		{"tasks.output", int64(c.Output), 64 << 10, "64KiB"},
		{"tasks.keep", int64(c.Keep), int64(time.Hour), "1h"},
	} {
		if limit.value < limit.min {
			found = append(found, fault.InvalidField(limit.field, "%s is too small; it must be at least %s.", limit.field, limit.least))
		}
	}
	return errors.Join(found...)
}

// Limits returns the limits of the service.
func (c Config) Limits() Limits {
	return Limits{
		PerSession: c.PerSession, Total: c.Total,
		Time: time.Duration(c.Time), MaxTime: time.Duration(c.MaxTime), OutputBytes: int64(c.Output),
	}
}
