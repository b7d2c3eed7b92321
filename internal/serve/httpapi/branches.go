package httpapi

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/serve/prompting"
)

// BranchTable stores conversations that continue others from an earlier message.
type BranchTable interface {
	// CreateBranch creates the session v, which continues v.Branch.Of from the message before
	// v.Branch.At, and returns that message.
	CreateBranch(tx *db.Tx, v session.Session) (session.HistoryMessage, error)
	// BranchesOf lists the branches of a session, the newest first.
	BranchesOf(q db.Queryer, sessionID string) ([]session.Session, error)
}

// branchBody asks for a conversation that continues from an earlier message of a person, which it
// asks again: in other words, or with another model.
type branchBody struct {
	// Before is the id of the message.
	Before string `json:"before"`
	// Content replaces its text; its files are kept. Without it, the same message is sent.
	Content *string `json:"content,omitempty"`
	// Agent, Model, and Effort are those of the branch; without them, those of the conversation.
	Agent  *string `json:"agent,omitempty"`
	Model  *string `json:"model,omitempty"`
	Effort *string `json:"effort,omitempty"`
}

func (b branchBody) check() error {
	switch {
	case b.Before == "":
		return fault.InvalidField("before", "Say in before which message to continue from.")
	case b.Content != nil && strings.TrimSpace(*b.Content) == "":
		return fault.InvalidField("content", "Content must not be empty. Leave it out to send the same message again.")
	case b.Content != nil:
		return checkContent(*b.Content)
	}
	return nil
}

// branch creates a conversation that continues another one from a message of a person, and sends
// that message in it. The other conversation stays as it is.
func (p *prompts) branch(w http.ResponseWriter, r *http.Request) error {
	var in branchBody
	key, hash, err := readKeyed(w, r, &in)
	if err != nil {
		return err
	}
	if p.sessions.branches == nil {
		return &fault.Error{Kind: fault.Unavailable, Code: "no_branches", Message: "Branches are not available on this server."}
	}
	var answer accepted
	err = p.db.Update(r.Context(), func(tx *db.Tx) error {
		of, err := p.sessions.table.Session(tx, r.PathValue("id"))
		if err != nil {
			return err
		}
		made, err := p.branchOf(of, in)
		if err != nil {
			return err
		}
		messageID := newID()
		answer = accepted{Success: true, SessionID: made.ID, MessageID: messageID, Message: "Processing started"}
		answer.RequestID = event.RequestID{Surface: made.Client, Session: made.ID, Specific: messageID}.String()
		if repeated, err := p.repeats(tx, "branch:"+of.ID, key, hash, &answer); err != nil || repeated {
			return err
		}
		at, err := p.sessions.branches.CreateBranch(tx, made)
		if err != nil {
			return err
		}
		if at.Message.Role != chat.User || automatic(at.ID) {
			return fault.InvalidField("before", "A conversation can only continue from a message that a person wrote.")
		}
		content, parts := at.Message.Text(), slices.DeleteFunc(at.Message.Parts, func(p chat.Part) bool { return p.Type == chat.TypeText })
		if in.Content != nil {
			content = *in.Content
		}
		if err := p.sessions.announce(tx, event.SessionCreated, made.ID, made); err != nil {
			return err
		}
		query, err := prompting.Query(made, messageID, content, event.Prompt, parts)
		if err != nil {
			return err
		}
		if err := p.sessions.begun(tx, r.Context(), made.ID); err != nil {
			return err
		}
		if err := p.signed(tx, r.Context(), &query); err != nil {
			return err
		}
		return prompting.Tables{Inbox: p.inbox, Accepted: p.table, Files: p.files.table}.Accept(r.Context(), tx, query, parts, sourceUser)
	})
	if err != nil {
		return err
	}
	p.accepted.Add(1)
	w.Header().Set("Location", "/sessions/"+answer.SessionID)
	return writeJSON(w, http.StatusCreated, answer)
}

// branchOf returns the session of a branch.
func (p *prompts) branchOf(of session.Session, in branchBody) (session.Session, error) {
	now := p.sessions.now().UnixMilli()
	change := sessionChange{Agent: in.Agent, Model: in.Model, Effort: in.Effort}
	made := session.Session{
		ID: newID(), Client: of.Client, Title: of.Title, Choice: change.apply(of.Choice), CreatedAt: now, UpdatedAt: now, State: "idle",
		Branch: &session.Branch{Of: of.ID, At: in.Before, FilesOf: of.ID},
	}
	if slices.Contains(slices.Concat(ownClients, p.sessions.platforms), of.Client) {
		made.Client = "web" // it continues on the page
	}
	if of.Branch != nil {
		made.Branch.FilesOf = cmp.Or(of.Branch.FilesOf, of.ID)
	}
	return made, p.sessions.checkChoice(change, made.Choice)
}

// automatic reports whether a message was written by a rule or a workflow.
func automatic(messageID string) bool {
	return strings.HasPrefix(messageID, "env-") || strings.HasPrefix(messageID, "wf-")
}
