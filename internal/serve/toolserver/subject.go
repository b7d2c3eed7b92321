package toolserver

import (
	"context"
	"encoding/json"

	"lilac/internal/foundation/text"
)

// subject is what a call is about. One goroutine runs a call and reads it after.
type subject struct{ sessionID string }

type subjectKey struct{}

// On notes the session that the call of ctx is about, for its record. Only the
// goroutine that a callable runs in may call it.
func On(ctx context.Context, sessionID string) {
	if s, ok := ctx.Value(subjectKey{}).(*subject); ok {
		s.sessionID = sessionID
	}
}

// sessionNamed is the session that an input names, in any spelling of the field,
// as it stands there.
func sessionNamed(input json.RawMessage) string {
	var fields map[string]any
	if json.Unmarshal(input, &fields) != nil {
		return ""
	}
	for key, value := range fields {
		if named, ok := value.(string); ok && sameName(key) == "sessionid" {
			return text.TruncateRunes(named, maxNamed)
		}
	}
	return ""
}
