package config

import (
	"errors"
	"fmt"
	"time"

	"lilac/internal/foundation/fault"
)

// checkTasks rejects limits under which no task could run.
func (c *Config) checkTasks() error {
	var found []error
	t := c.Tasks
	for _, limit := range []struct {
		field      string
		value, min int64
		least      string
	}{
		{"tasks.perSession", int64(t.PerSession), 1, "1"},
		{"tasks.total", int64(t.Total), 1, "1"},
		{"tasks.time", int64(t.Time), int64(time.Second), "1s"},
		{"tasks.maxTime", int64(t.MaxTime), int64(t.Time), fmt.Sprintf("tasks.time, which is %s", time.Duration(t.Time))},
		{"tasks.output", int64(t.Output), 64 << 10, "64KiB"},
		{"tasks.keep", int64(t.Keep), int64(time.Hour), "1h"},
	} {
		if limit.value < limit.min {
			found = append(found, fault.InvalidField(limit.field, "%s is too small; it must be at least %s.", limit.field, limit.least))
		}
	}
	return errors.Join(found...)
}
