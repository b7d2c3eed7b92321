package session

import (
	"fmt"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/fault"
)

// codeSessionBusy is the code of a fault.Conflict of a session that works on a
// request.
const codeSessionBusy = "session_busy"

// NewConversation begins a new conversation in a session: the model no longer
// sees the earlier messages. They are kept, and lists and the search still find
// them. by is the name of the person who wants that. While the session has a
// request, it returns a fault.Conflict. A session without messages stays as it
// is.
func (s *Service) NewConversation(tx *db.Tx, sessionID, by string) error {
	state, err := s.opt.Tables.States.State(tx, sessionID)
	if err != nil && !db.IsDamaged(err) { // a session with a damaged state cannot run
		return fmt.Errorf("load session: %w", err)
	}
	if !state.Idle() {
		return &fault.Error{Kind: fault.Conflict, Code: codeSessionBusy, Message: "An answer is in progress here. Wait for it, or stop it first."}
	}
	if _, err := s.opt.Tables.Sessions.Session(tx, sessionID); fault.KindOf(err) == fault.NotFound {
		return nil
	} else if err != nil {
		return err
	}
	at := tx.Now().UnixMilli()
	note := chat.Text(chat.System, fmt.Sprintf("%s began a new conversation here. The agent does not see the messages above.", by))
	seq, err := s.opt.Tables.History.AppendHistory(tx, sessionID, HistoryMessage{ID: fmt.Sprintf("new/%d", at), CreatedAt: at, Message: note})
	if err != nil {
		return err
	}
	return s.opt.Tables.History.BeginConversation(tx, sessionID, seq+1)
}
