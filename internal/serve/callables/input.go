package callables

import (
	"encoding/json"
	"fmt"
)

// decode reads an input that fits the schema of its callable.
func decode[T any](input json.RawMessage) (in T, err error) {
	if err := json.Unmarshal(input, &in); err != nil {
		return in, fmt.Errorf("read input: %w", err)
	}
	return in, nil
}
