package store

import (
	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
)

// seenBy completes a condition on the id of a session: it is one that a person may see.
const seenBy = ` IN (SELECT session_id FROM account_shares WHERE person_id = ?)`

// checkSeen hides a session from a person who may not see it; "" may see all of them.
func checkSeen(q db.Queryer, person, sessionID string) error {
	if person == "" {
		return nil
	}
	seen, err := exists(q, `SELECT 1 FROM account_shares WHERE session_id = ? AND person_id = ?`, sessionID, person)
	if err == nil && !seen {
		return fault.New(fault.NotFound, "There is no session %q.", sessionID)
	}
	return err
}

// Seen lists what one person may see, of which other types list everything.
type Seen struct{}

// Sessions is like [Sessions.Sessions].
func (Seen) Sessions(q db.Queryer, person string, filter session.ListFilter, limit int, before string) ([]session.Session, error) {
	return listSessions(q, person, filter, limit, before)
}

// SessionsTitled is like [Sessions.SessionsTitled].
func (Seen) SessionsTitled(q db.Queryer, person, text string, limit int) ([]session.Session, error) {
	return titledSessions(q, person, text, limit)
}

// Search is like [HistoryIndex.Search].
func (Seen) Search(q db.Queryer, person, query string, limit int, before int64) ([]session.SearchResult, error) {
	return searchHistory(q, searchSeenRows, person, nil, query, limit, before)
}

// Requests is like [Requests.Requests].
func (Seen) Requests(q db.Queryer, person, sessionID string, limit int, before string) ([]session.Request, error) {
	if before != "" {
		if _, _, ok := session.ParsePageToken(before); !ok { // it would tell whether the request exists
			return nil, fault.New(fault.NotFound, "There is no request %q.", before)
		}
	}
	return listRequests(q, person, sessionID, limit, before)
}
