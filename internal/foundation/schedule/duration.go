package schedule

import (
	"strconv"
	"strings"
	"time"

	"lilac/internal/foundation/fault"
)

// maxDays bounds the days of a duration.
const maxDays = 10_000

// ParseDuration parses a Go duration with optional days of 24 hours in front, like 45m,
// 36h, 3d, or 1d12h.
func ParseDuration(text string) (time.Duration, error) {
	days, rest, found := strings.Cut(text, "d")
	if !found {
		days, rest = "0", text
	}
	if rest == "" && found {
		rest = "0s"
	}
	whole, dayErr := strconv.ParseUint(days, 10, 32)
	part, err := time.ParseDuration(rest)
	if dayErr != nil || err != nil || part < 0 || whole > maxDays {
		return 0, fault.New(fault.Invalid, "%q is not a duration. Use a form like 45m, 2h, 36h, or 3d.", text)
	}
	return time.Duration(whole)*24*time.Hour + part, nil
}
