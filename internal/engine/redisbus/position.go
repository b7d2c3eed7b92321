package redisbus

import (
	"strconv"
	"strings"

	"lilac/internal/engine/bus"
	"lilac/internal/foundation/fault"
)

// countBits is the number of low bits of a position that hold the count within the
// topic; the rest is the epoch. That allows 8 million starts, and 10^12 events per topic.
const countBits = 40

const (
	countMax = 1<<countBits - 1
	epochMax = 1<<(63-countBits) - 1
)

func makePosition(epoch, n int64) int64 { return epoch<<countBits | n }

// entryID formats a position as the id of a stream entry.
func entryID(seq int64) string {
	id := strconv.AppendInt(make([]byte, 0, 24), seq>>countBits, 10)
	return string(strconv.AppendInt(append(id, '-'), seq&countMax, 10))
}

func parseEntryID(s string) (int64, bool) {
	epoch, n, ok := strings.Cut(s, "-")
	if !ok {
		return 0, false
	}
	e, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil || e < 0 || e > epochMax {
		return 0, false
	}
	c, err := strconv.ParseInt(n, 10, 64)
	if err != nil || c < 0 || c > countMax {
		return 0, false
	}
	return makePosition(e, c), true
}

// Position implements delivery.Log.
func (l *stream) Position(seq int64) bus.Position {
	if seq == 0 {
		return ""
	}
	return bus.Position(entryID(seq))
}

// Seq implements delivery.Log.
func (l *stream) Seq(p bus.Position) (int64, error) {
	if p == "" {
		return 0, nil
	}
	seq, ok := parseEntryID(string(p))
	if !ok {
		return 0, fault.InvalidField("position", "%q is not a position of this bus.", string(p))
	}
	return seq, nil
}

// Distance implements delivery.Log. The count continues across epochs, so the
// difference of the counts is the number of events.
func (l *stream) Distance(from, to int64) int64 {
	if to <= from || to&countMax == 0 {
		return 0
	}
	return max(1, to&countMax-from&countMax)
}
