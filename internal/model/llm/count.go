package llm

import (
	"bytes"
	"encoding/json"
)

// maxCount is more tokens than one answer can use. A provider that says more
// is wrong, and must not fill up the counts of everybody for ever.
const maxCount = 1e12

// Count is a number of tokens as a provider writes it: 12, 12.0, 1e3 or "12".
// What is no number counts nothing, as does one below zero: an answer that is
// complete is not given up for how its usage is written.
type Count int64

// UnmarshalJSON reads any value.
func (c *Count) UnmarshalJSON(raw []byte) error {
	var n float64
	_ = json.Unmarshal(bytes.Trim(raw, `"`), &n) // what is no number leaves zero
	*c = Count(min(max(n, 0), maxCount))
	return nil
}
