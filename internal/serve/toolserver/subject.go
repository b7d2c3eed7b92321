package toolserver

import (
	"context"
	"encoding/json"

	"lilac/internal/foundation/schema"
	"lilac/internal/foundation/text"
)

// subject is the session that a call is about. Only the goroutine that runs the
// call uses it.
type subject struct{ sessionID string }

type subjectKey struct{}

// NoteSession notes the session that the call of ctx is about, for its record. Only
// the goroutine that runs the callable may call it.
func NoteSession(ctx context.Context, sessionID string) {
	if s, ok := ctx.Value(subjectKey{}).(*subject); ok {
		s.sessionID = sessionID
	}
}

// sessionNamed returns the session that an input names, in any spelling of the
// field, exactly as it was given.
func sessionNamed(input json.RawMessage) string {
	var fields map[string]any
	if json.Unmarshal(input, &fields) != nil {
		return ""
	}
	for key, value := range fields {
		if named, ok := value.(string); ok && schema.SameName(key) == "sessionid" {
			return text.TruncateRunes(named, maxNamed)
		}
	}
	return ""
}
