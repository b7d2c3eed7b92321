package llm

import (
	"bytes"
	"encoding/json"
	"math"
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
	var n float64
	_ = json.Unmarshal(bytes.Trim(raw, `"`), &n) // zero if it is not a number
	*c = Count(min(max(n, 0), maxCount))
	return nil
}

// maxCost bounds the reported cost of one answer, in US dollars.
const maxCost = 1e6

// CostMicros decodes a cost in US dollars, also in quotes, to millionths of a dollar,
// rounded up. Anything else is zero.
func CostMicros(raw json.RawMessage) int64 {
	var cost float64
	_ = json.Unmarshal(bytes.Trim(raw, `"`), &cost) // zero if it is not a number
	if cost <= 0 {
		return 0
	}
	return int64(math.Ceil(min(cost, maxCost)*1e6 - 1e-6))
}
