package discordtest

import (
	"strconv"
	"time"
)

// discordEpoch is the start of 2015 in Unix milliseconds (API Reference, "Snowflakes").
const discordEpoch = 1420070400000

// mintLocked returns the next snowflake. It is derived from the clock and always larger
// than the one before.
func (s *core) mintLocked() string {
	id := max((s.o.Now().UnixMilli()-discordEpoch)<<22, s.lastID+1)
	s.lastID = id
	return strconv.FormatInt(id, 10)
}

// IDAt returns a snowflake with the given creation time.
func IDAt(at time.Time) string {
	return strconv.FormatInt((at.UnixMilli()-discordEpoch)<<22, 10)
}

// snowflake parses an ID. It returns false if the ID is not a valid snowflake.
func snowflake(id string) (int64, bool) {
	n, err := strconv.ParseInt(id, 10, 64)
	return n, err == nil && n > 0
}

func older(a, b string) bool {
	x, _ := snowflake(a)
	y, _ := snowflake(b)
	return x < y
}

func compareIDs(a, b string) int {
	switch {
	case older(a, b):
		return -1
	case older(b, a):
		return 1
	}
	return 0
}

// stamp formats a time as Discord does: ISO 8601 in UTC with microseconds.
func stamp(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.000000+00:00") }
