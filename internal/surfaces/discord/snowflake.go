package discord

import "strconv"

// discordEpoch is the Unix time in milliseconds at which Discord's ids begin
// ("API Reference", snowflakes).
const discordEpoch = 1420070400000

// firstIDAt returns the smallest id of a time (Unix milliseconds).
func firstIDAt(ms int64) string {
	return strconv.FormatInt(max(ms-discordEpoch, 0)<<22, 10)
}

// idBefore returns the id that precedes id.
func idBefore(id string) string {
	n, err := strconv.ParseUint(id, 10, 64)
	if err != nil || n == 0 {
		return id
	}
	return strconv.FormatUint(n-1, 10)
}

// createdAt returns when an id was created (Unix milliseconds), 0 for an
// invalid id.
func createdAt(id string) int64 {
	n, err := strconv.ParseUint(id, 10, 64)
	if err != nil {
		return 0
	}
	return int64(n>>22) + discordEpoch
}

// isNewer reports whether id a was created after id b.
func isNewer(a, b string) bool { return len(a) > len(b) || len(a) == len(b) && a > b }

// isSnowflake reports whether id has the form of a Discord id.
func isSnowflake(id string) bool {
	n, err := strconv.ParseUint(id, 10, 64)
	return err == nil && n > 0
}
