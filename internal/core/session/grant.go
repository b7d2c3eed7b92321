package session

import (
	"encoding/json"

	"lilac/internal/foundation/grant"
)

// grantIn returns the restriction that a journal entry adds to its request.
func grantIn(e StoryEntry) (grant.Grant, error) {
	if e.Kind != kindStarted && e.Kind != kindInput || len(e.Data) == 0 {
		return nil, nil
	}
	var entry startedEntry // an input has the same field
	if err := json.Unmarshal(e.Data, &entry); err != nil {
		return nil, err
	}
	return entry.Grant, nil
}

// workspaceIn returns the session in whose own workspace a request works, according to the entry
// of its start.
func workspaceIn(e StoryEntry) (sessionID string, err error) {
	if len(e.Data) == 0 {
		return "", nil
	}
	var entry startedEntry
	err = json.Unmarshal(e.Data, &entry)
	return entry.Workspace, err
}

// WorkspaceOf returns the session in whose own workspace a request works according to its
// journal, or "" for the shared one. known reports whether the journal says so.
func WorkspaceOf(entries []StoryEntry) (sessionID string, known bool) {
	for _, e := range entries {
		if e.Kind == kindStarted {
			sessionID, err := workspaceIn(e)
			return sessionID, err == nil
		}
	}
	return "", false
}

// GrantOf returns what a request may use according to its journal: what its place
// allowed when it started, restricted by each message that was applied to it. A journal
// that cannot be read allows nothing.
func GrantOf(entries []StoryEntry) (g grant.Grant) {
	for _, e := range entries {
		more, err := grantIn(e)
		if err != nil || e.Kind == EntryDamaged {
			return grant.Of(grant.Tools{From: "a damaged record of the request", Deny: []string{"*"}})
		}
		g = g.And(more)
	}
	return g
}
