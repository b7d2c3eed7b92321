package session

import (
	"strconv"
	"strings"
)

// Place is where a list goes on behind a row: it holds also when the row has moved
// since, or is gone. A row whose time is not known is named by its id.
func Place(at int64, id string) string {
	if at <= 0 {
		return id
	}
	return strconv.FormatInt(at, 10) + ":" + id
}

// ParsePlace reads a [Place]; it is false for the id of a row, which begins with no
// number and colon.
func ParsePlace(place string) (at int64, id string, ok bool) {
	stamp, id, ok := strings.Cut(place, ":")
	at, err := strconv.ParseInt(stamp, 10, 64)
	return at, id, ok && err == nil
}
