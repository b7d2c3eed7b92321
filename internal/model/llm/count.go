package llm

import (
	"bytes"
	"encoding/json"
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
