package session

import (
	"strconv"
	"strings"
)

// PageToken returns a token that points just past a row of a list, whose position
// is its time and id. The token stays valid when the row changes or is deleted.
// If the row's time is unknown (0), the token is its id.
func PageToken(at int64, id string) string {
	if at <= 0 {
		return id
	}
	return strconv.FormatInt(at, 10) + ":" + id
}

// ParsePageToken splits a [PageToken]. ok is false for a plain id, which does not
// start with a number and a colon.
func ParsePageToken(token string) (at int64, id string, ok bool) {
	stamp, id, ok := strings.Cut(token, ":")
	at, err := strconv.ParseInt(stamp, 10, 64)
	return at, id, ok && err == nil
}
