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

// maxQuery is in runes: words to look for, not a text.
const maxQuery = 200

// foundSessions is how many conversations a search by title lists.
const foundSessions = 20

// search looks for words in what was said and in the titles.
func (a *api) search(w http.ResponseWriter, r *http.Request) error {
	if err := a.needSessions(); err != nil {
		return err
	}
	if err := onlyQuery(r, "q", "limit", "before"); err != nil {
		return err
	}
	limit, err := limitOf(r)
	if err != nil {
		return err
	}
	text := strings.TrimFunc(r.URL.Query().Get("q"), func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) })
	if n := utf8.RuneCountInString(text); n == 0 || n > maxQuery {
		return fault.InvalidField("q", "Say in q what to look for, in 1 to %d characters.", maxQuery)
	}
	var before int64
	if raw := r.URL.Query().Get("before"); raw != "" {
		if before, err = strconv.ParseInt(raw, 10, 64); err != nil || before < 1 {
			return fault.InvalidField("before", "before has to be the next of an earlier answer.")
		}
	}
	out := struct {
		Sessions []session.Session `json:"sessions"`
		Messages []session.SearchResult   `json:"messages"`
		Next     string            `json:"next,omitempty"`
	}{Sessions: []session.Session{}, Messages: []session.SearchResult{}}
	if err := a.DB.UpdateRelaxed(r.Context(), a.Store.IndexHistory); err != nil {
		return err
	}
	err = a.DB.Read(r.Context(), func(q db.Queryer) error {
		found, err := a.Store.Search(q, text, limit+1, before)
		if err != nil {
			return err
		}
		out.Messages, out.Next = pageOf(found, limit, func(m session.SearchResult) string { return strconv.FormatInt(m.Row, 10) })
		if before > 0 {
			return nil // titles stand on the first page
		}
		titled, err := a.Store.SessionsTitled(q, text, foundSessions)
		out.Sessions = append(out.Sessions, titled...)
		return err
	})
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, out)
}
