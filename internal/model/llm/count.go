package llm

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
)

// maxCount is more tokens than one answer can use. A larger number is an error of
// the provider and must not fill up the totals.
const maxCount = 1e12

// Count is a number of tokens in any notation that providers use: 12, 12.0, 1e3, or
// "12". Anything else, and a negative number, decodes as zero: a complete answer must
// not fail because of its usage report.
type Count int64

// UnmarshalJSON accepts any value and never fails.
func (c *Count) UnmarshalJSON(raw []byte) error {
	raw = bytes.Trim(raw, `"`)
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil { // rarely; the decoder needs a deeper stack
		var f float64
		_ = json.Unmarshal(raw, &f) // zero if it is not a number
		n = int64(min(max(f, 0), maxCount))
	}
	*c = Count(min(max(n, 0), maxCount))
	return nil
}

// ticksPerMicro is the number of ticks in a millionth of a US dollar. xAI reports its costs in
// ticks.
const ticksPerMicro = 10_000

// TickMicros converts ticks to millionths of a dollar, rounded up.
func (c Count) TickMicros() int64 { return (int64(c) + ticksPerMicro - 1) / ticksPerMicro }

// maxCost bounds the reported cost of one answer, in US dollars.
const maxCost = 1e6

// CostMicros decodes a cost in US dollars, also in quotes or as the total of an object
// (Perplexity), to millionths of a dollar, rounded up. Anything else is zero.
func CostMicros(raw json.RawMessage) int64 {
	if fields := object(raw); fields != nil {
		return max(CostMicros(fields["total_cost"]), CostMicros(fields["total"]))
	}
	var cost float64
	_ = json.Unmarshal(bytes.Trim(raw, `"`), &cost) // zero if it is not a number
	if cost <= 0 {
		return 0
	}
	return int64(math.Ceil(min(cost, maxCost)*1e6 - 1e-6))
}

// IsKeepAlive reports whether the data of an event has no meaning: servers and proxies send
// it so that the connection stays open.
func IsKeepAlive(data []byte) bool {
	const longest = 32
	if len(data) > longest {
		return false
	}
	switch string(bytes.ToLower(bytes.Trim(data, "\" \t\r\n"))) {
	case "", "null", "{}", "[]", "true", "ping", "pong", "heartbeat", "keep-alive", "keepalive", "keep_alive", ": keep-alive", ": ping", `{"type":"ping"}`, `{"type": "ping"}`:
		return true
	}
	return false
}
