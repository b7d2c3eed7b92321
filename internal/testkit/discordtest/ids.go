package discordtest

import (
	"strconv"
	"time"
)

// discordEpoch is the first second of 2015 in Unix milliseconds (API
// Reference, "Snowflakes").
const discordEpoch = 1420070400000

// mintLocked makes the next id: time and, so that ids only grow, a count.
func (s *Server) mintLocked() string {
	id := max((s.o.Now().UnixMilli()-discordEpoch)<<22, s.lastID+1)
	s.lastID = id
	return strconv.FormatInt(id, 10)
}

// IDAt is an id as Discord would have made it at a time.
func IDAt(at time.Time) string {
	return strconv.FormatInt((at.UnixMilli()-discordEpoch)<<22, 10)
}

// snowflake reads an id; false when it is none.
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

// stamp is a time as Discord writes it: ISO 8601.
func stamp(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.000000+00:00") }
