package openaiapi

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
)

// The inbox sources of what clients repeat instead of selecting a conversation: the answers that end a
// transcript, and the newest call of each conversation.
const (
	transcripts = "v1-transcript"
	newestCalls = "v1-newest"
)

// transcript names what a client said and was answered, with all that shapes a conversation that begins.
func (c *call) transcript(said []*message) string {
	sum := sha256.New()
	e := json.NewEncoder(sum)
	_ = e.Encode([]string{c.model.ID, c.instructions}) // a hash takes everything
	for _, m := range said {
		_ = e.Encode([]string{m.Role, strings.TrimSpace(m.Content.text())})
		for i := range m.Content {
			if p := &m.Content[i]; p.Text+p.Refusal == "" { // a file
				_ = e.Encode(p)
			}
		}
	}
	return c.client + ":" + hex.EncodeToString(sum.Sum(nil))
}

// noteTranscript notes that a client has an answer, whose transcript the next call without a selector may repeat.
// If a second conversation has the same transcript, none is continued: they may belong to two people.
func (h *Handler) noteTranscript(tx *db.Tx, id string, c *call) error {
	return h.alike(tx, transcripts, id, func(same []*run) []*run {
		if slices.ContainsFunc(same, func(r *run) bool { return r.MessageID == c.MessageID }) {
			return same
		}
		return append(same[:min(len(same), 1)], &run{SessionID: c.SessionID, MessageID: c.MessageID})
	})
}

// continues selects a conversation for a call without a selector, if the call repeats exactly its messages, up to
// the newest answer. After an edit, or if the conversation has gone on, another one begins.
func (h *Handler) continues(tx *db.Tx, c *call) (sel selector, err error) {
	var same []*run
	err = h.alike(tx, transcripts, c.repeats, func(found []*run) []*run { same = found; return found })
	if err != nil || len(same) != 1 {
		return sel, err
	}
	r := same[0]
	newest, _, err := h.o.Attempts.Seen(tx, newestCalls, r.SessionID, []byte(`""`))
	if err != nil || string(newest) != strconv.Quote(r.MessageID) {
		return sel, err
	}
	s, err := h.o.Sessions.Session(tx, r.SessionID)
	switch {
	case fault.KindOf(err) == fault.NotFound: // it was deleted
		return sel, nil
	case err != nil || s.Client != c.surface || s.Paused != nil && s.Paused.Kind == session.ForApproval: // a program cannot approve
		return sel, err
	}
	return selector{id: r.SessionID, field: "messages"}, nil
}

// noteNewest notes the newest call of a conversation.
func (h *Handler) noteNewest(tx *db.Tx, sessionID, messageID string) error {
	return h.o.Attempts.Replace(tx, newestCalls, sessionID, []byte(strconv.Quote(messageID)))
}
