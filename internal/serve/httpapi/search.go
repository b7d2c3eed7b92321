package httpapi

import (
	"net/http"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
)

const (
	// maxQuery is in runes: a query is a few words, not a text.
	maxQuery = 200
	// foundSessions limits the conversations that a search lists by title.
	foundSessions = 20
)

// searches looks for words in messages and titles.
type searches struct {
	db       *db.DB
	history  HistoryTable
	sessions SessionTable
	seen     SeenTable // nil on a server without accounts
}

type searchResult struct {
	Sessions []session.Session      `json:"sessions"`
	Messages []session.SearchResult `json:"messages"`
	Next     string                 `json:"next,omitempty"`
}

func (s *searches) search(r *http.Request) (out searchResult, err error) {
	limit, err := limitOf(r)
	if err != nil {
		return out, err
	}
	text := strings.TrimFunc(r.URL.Query().Get("q"), func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) })
	if n := utf8.RuneCountInString(text); n == 0 || n > maxQuery {
		return out, fault.InvalidField("q", "q must have 1 to %d characters.", maxQuery)
	}
	before, err := rowBefore(r, "before must be the next of an earlier response.")
	if err != nil {
		return out, err
	}
	out = searchResult{Sessions: []session.Session{}, Messages: []session.SearchResult{}}
	if err := s.db.UpdateRelaxed(r.Context(), s.history.IndexHistory); err != nil {
		return out, err
	}
	person := viewerID(r.Context())
	err = s.db.Read(r.Context(), func(q db.Queryer) error {
		found, err := s.messages(q, person, text, limit+1, before)
		if err != nil {
			return err
		}
		out.Messages, out.Next = pageOf(found, limit, func(m session.SearchResult) string { return strconv.FormatInt(m.Row, 10) })
		if before > 0 {
			return nil // titles are on the first page only
		}
		titled, err := s.titles(q, person, text)
		out.Sessions = append(out.Sessions, titled...)
		return err
	})
	return out, err
}

// messages searches the messages that a person may see; "" may see all of them.
func (s *searches) messages(q db.Queryer, person, text string, limit int, before int64) ([]session.SearchResult, error) {
	if person != "" {
		return s.seen.Search(q, person, text, limit, before)
	}
	return s.history.Search(q, text, limit, before)
}

// titles is like messages, for titles.
func (s *searches) titles(q db.Queryer, person, text string) ([]session.Session, error) {
	if person != "" {
		return s.seen.SessionsTitled(q, person, text, foundSessions)
	}
	return s.sessions.SessionsTitled(q, text, foundSessions)
}

// rowBefore parses the query parameter before as the number of a row; 0 means
// that it is absent.
func rowBefore(r *http.Request, message string) (int64, error) {
	raw := r.URL.Query().Get("before")
	if raw == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(raw, 10, 64)
	if err != nil || n < 1 {
		return 0, fault.InvalidField("before", "%s", message)
	}
	return n, nil
}
