package session

import (
	"strconv"
	"strings"
)

// PageToken is where a list goes on behind a row: it holds also when the row has moved
// since, or is gone. A row whose time is not known is named by its id.
func PageToken(at int64, id string) string {
	if at <= 0 {
		return id
	}
	return strconv.FormatInt(at, 10) + ":" + id
}

// ParsePageToken reads a [PageToken]; it is false for the id of a row, which begins with no
// number and colon.
func ParsePageToken(place string) (at int64, id string, ok bool) {
	stamp, id, ok := strings.Cut(place, ":")
	at, err := strconv.ParseInt(stamp, 10, 64)
	return at, id, ok && err == nil
}
