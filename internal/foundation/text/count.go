package text

import "strconv"

// Count returns a number with its noun, as in "1 event" and "2 events". noun is the
// singular of a noun whose plural ends in s.
func Count[N int | int64 | uint64](n N, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.FormatInt(int64(n), 10) + " " + noun
}
