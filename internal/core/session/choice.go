package session

import (
	"encoding/json"
	"fmt"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/model/fallback"
)

// A Choice is what people chose for a session. It takes effect with the session's next
// request. Empty fields follow the configuration.
type Choice struct {
	// Agent is the name of the configured agent that answers.
	Agent string `json:"agent,omitempty"`
	// Model is provider/model, and Effort how much it thinks.
	Model  string `json:"model,omitempty"`
	Effort string `json:"effort,omitempty"`
	// Instructions are added to those of the operator.
	Instructions string `json:"instructions,omitempty"`
	// Workspace says where the agent works.
	Workspace Workspace `json:"workspace,omitempty"`
}

// A Workspace says whose files the agent works on.
type Workspace string

// The workspaces: that of all conversations that share it, or one of the conversation alone.
const (
	SharedWorkspace Workspace = "shared"
	OwnWorkspace    Workspace = "own"
)

// MaxInstructions bounds the instructions of a session, in bytes: they are part of
// every model call.
const MaxInstructions = 32 << 10

// Choose changes what people chose for a session, which it creates if necessary. The
// event with the given id announces the change.
func (s *Service) Choose(tx *db.Tx, client, sessionID, eventID string, edit func(*Choice)) error {
	table := s.opt.Tables.Sessions
	v, err := table.Session(tx, sessionID)
	if fault.KindOf(err) == fault.NotFound {
		at := tx.Now().UnixMilli()
		v = Session{ID: sessionID, Client: client, CreatedAt: at, UpdatedAt: at, State: "idle", Title: s.opt.Surfaces.Title(tx, client, sessionID)}
		err = table.CreateSession(tx, v)
		if err == nil {
			err = publishSession(tx, event.SessionCreated, "session.created:"+sessionID, v)
		}
	}
	if err != nil {
		return err
	}
	edit(&v.Choice)
	if err := table.SetChoice(tx, sessionID, v.Choice); err != nil {
		return err
	}
	return publishSession(tx, event.SessionUpdated, eventID, v)
}

// publishSession publishes an environment event about a session that people changed.
func publishSession(tx *db.Tx, t event.Type, id string, v Session) error {
	payload, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %s: %w", t, err)
	}
	id = boundedEventID(id)
	at := tx.Now()
	e, err := event.New(event.Meta{ID: id, Time: at}, event.EnvEvent{
		ID: id, Type: t, Timestamp: at.UnixMilli(), Payload: payload, Metadata: event.EnvMetadata{TriggerSessionID: v.ID, Source: "user"},
	})
	if err != nil {
		return err
	}
	return tx.Publish(e)
}

// joinInstructions puts the instructions of a channel and of a conversation below
// those of the operator.
func joinInstructions(texts ...string) (out string) {
	for _, text := range texts {
		if out != "" && text != "" {
			out += "\n\n"
		}
		out += text
	}
	return out
}

const (
	// maxSwitchReason bounds the reason of a switch to another model, in runes.
	maxSwitchReason = 300
	// maxNotes bounds the notes below an answer.
	maxNotes = 3
)

// addSwitchNote adds the note about a switch. A long chain of switches keeps the latest.
func addSwitchNote(notes []string, s fallback.Switch) []string {
	notes = append(notes, fmt.Sprintf("%s continued for %s: %s", s.To, s.From, s.Reason))
	return notes[max(0, len(notes)-maxNotes):]
}

// maxRecordedInstructions limits the instructions in the record of a request, in characters.
const maxRecordedInstructions = 4000

// recordModel puts the model of a run into the request's row, also if no call of it
// succeeded.
func (c *change) recordModel(r *run) error {
	if r.model == "" {
		return nil
	}
	req, err := c.request(r.requestID)
	if err != nil || req.Model == r.model {
		return err
	}
	req.Model = r.model
	c.updateRequest(req)
	return nil
}
