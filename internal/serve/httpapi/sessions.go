package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"lilac/internal/core/account"
	"lilac/internal/core/environment"
	"lilac/internal/core/session"
	"lilac/internal/core/task"
	"lilac/internal/core/workflow"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/lazyregexp"
	"lilac/internal/foundation/text"

	"github.com/oklog/ulid/v2"
)

// maxTitle is in runes: a title is one line in a list.
const maxTitle = 200

// A client name is the first part of request ids, which ends at a colon.
const clientPattern = `^[a-z][a-z0-9_-]{0,31}$`

var clientName = lazyregexp.New(clientPattern)

// ownClients begin the ids of requests that Lilac itself creates.
var ownClients = []string{task.Client, workflow.Surface, environment.Surface}

// SessionTable stores conversations.
type SessionTable interface {
	// CreateSession inserts an idle session.
	CreateSession(tx *db.Tx, s session.Session) error
	// DeleteSession deletes a session and its history. It refuses while an
	// accepted message has not reached the runner.
	DeleteSession(tx *db.Tx, id string) error
	Session(q db.Queryer, id string) (session.Session, error)
	// Sessions lists the most recently updated first, after the session id or page
	// token before.
	Sessions(q db.Queryer, filter session.ListFilter, limit int, before string) ([]session.Session, error)
	SetFiling(tx *db.Tx, id string, f session.Filing) error
	SetTitle(tx *db.Tx, id, title string) error
	SetChoice(tx *db.Tx, id string, c session.Choice) error
	// SessionsTitled lists sessions whose title contains text.
	SessionsTitled(q db.Queryer, text string, limit int) ([]session.Session, error)
}

// SeenTable lists what a person with an account may see, of which other tables list everything.
type SeenTable interface {
	Sessions(q db.Queryer, person string, filter session.ListFilter, limit int, before string) ([]session.Session, error)
	SessionsTitled(q db.Queryer, person, text string, limit int) ([]session.Session, error)
	Search(q db.Queryer, person, query string, limit int, before int64) ([]session.SearchResult, error)
	Requests(q db.Queryer, person, sessionID string, limit int, before string) ([]session.Request, error)
}

// QuestionTable returns the open questions of the sub-agents of a session.
type QuestionTable interface {
	Questions(q db.Queryer, sessionID string) ([]session.TaskQuestion, error)
}

// sessions serves conversations without their messages.
type sessions struct {
	people    people
	seen      SeenTable // nil on a server without accounts
	db        *db.DB
	table     SessionTable  // nil on a server without sessions
	questions QuestionTable // nil on a server without sub-agents
	branches  BranchTable   // nil on a server without branches
	inbox     environment.Inbox
	// platforms are the clients whose sessions cannot be created here.
	platforms []string
	models    Models // nil on a server without models to choose from
	now       func() time.Time
}

// available returns an error on a server without sessions.
func (s *sessions) available() error {
	if s.table == nil {
		return &fault.Error{Kind: fault.Unavailable, Code: "no_sessions", Message: "Sessions are not available on this server."}
	}
	return nil
}

type newSession struct {
	Title  string  `json:"title,omitempty"`
	Client *string `json:"client,omitempty"`
}

func (s *sessions) create(w http.ResponseWriter, r *http.Request) error {
	in, err := readJSON[newSession](w, r, optionalBody)
	if err != nil {
		return err
	}
	client := "web"
	if in.Client != nil {
		client = *in.Client
	}
	title := text.SingleLine(in.Title)
	if utf8.RuneCountInString(title) > maxTitle {
		return fault.InvalidField("title", "A title has at most %d characters.", maxTitle)
	}
	if !clientName().MatchString(client) {
		return fault.InvalidField("client", "A client has 1 to 32 characters (a-z, 0-9, _ and -) and begins with a letter.")
	}
	if slices.Contains(slices.Concat(ownClients, s.platforms), client) {
		f := fault.InvalidField("client", "Conversations of the client %s cannot be created here. Choose another name.", client)
		f.Code = "client_taken"
		return f
	}
	if client != "web" && viewerID(r.Context()) != "" {
		return &fault.Error{Kind: fault.Denied, Code: "operators_only", Field: "client", Message: "Members begin conversations of the client web only."}
	}
	now := s.now().UnixMilli()
	created := session.Session{ID: newID(), Client: client, Title: title, CreatedAt: now, UpdatedAt: now, State: "idle"}
	err = s.db.Update(r.Context(), func(tx *db.Tx) error {
		if err := s.table.CreateSession(tx, created); err != nil {
			return err
		}
		if err := s.begun(tx, r.Context(), created.ID); err != nil {
			return err
		}
		return s.announce(tx, event.SessionCreated, created.ID, created)
	})
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/sessions/"+created.ID)
	return writeJSON(w, http.StatusCreated, created)
}

// announce publishes a change of a session in the transaction that makes it. The
// event's id is the type and key.
func (s *sessions) announce(tx *db.Tx, t event.Type, key string, changed session.Session) error {
	payload, err := json.Marshal(changed)
	if err != nil {
		return fault.Wrap(fault.Internal, err, "The session could not be encoded.")
	}
	_, err = environment.Publish(tx, s.inbox, event.EnvEvent{
		ID:       string(t) + ":" + key,
		Type:     t,
		Metadata: event.EnvMetadata{TriggerSessionID: changed.ID, Source: "user"},
		Payload:  payload,
	})
	return err
}

// begun records the owner of a conversation that the transaction creates.
func (s *sessions) begun(tx *db.Tx, ctx context.Context, id string) error {
	if err := s.people.own(tx, ctx, id); err != nil {
		return err
	}
	return s.people.note(tx, ctx, account.Action{Kind: "create", SessionID: id})
}

type sessionList struct {
	Sessions []session.Session `json:"sessions"`
	Next     string            `json:"next,omitempty"`
}

func (s *sessions) list(r *http.Request) (out sessionList, err error) {
	limit, err := limitOf(r)
	if err != nil {
		return out, err
	}
	filter := session.ListFilter(r.URL.Query().Get("filter"))
	if filter != session.ListActive && filter != session.ListPinned && filter != session.ListArchived {
		return out, fault.InvalidField("filter", "There is no filter %q. Use pinned, archived, or none.", filter)
	}
	err = s.db.Read(r.Context(), func(q db.Queryer) (err error) {
		if person := viewerID(r.Context()); person != "" {
			out.Sessions, err = s.seen.Sessions(q, person, filter, limit+1, r.URL.Query().Get("before"))
			return err
		}
		out.Sessions, err = s.table.Sessions(q, filter, limit+1, r.URL.Query().Get("before"))
		return err
	})
	if err != nil {
		return out, err
	}
	out.Sessions, out.Next = pageOf(out.Sessions, limit, func(s session.Session) string { return session.PageToken(s.UpdatedAt, s.ID) })
	return out, nil
}

// find returns a session, or the error that says why there is none.
func (s *sessions) find(ctx context.Context, id string) (found session.Session, err error) {
	if err := s.available(); err != nil {
		return found, err
	}
	err = s.db.Read(ctx, func(q db.Queryer) (err error) {
		found, err = s.table.Session(q, id)
		return err
	})
	return found, err
}

// oneSession is a session with the open questions of its sub-agents, and its branches.
type oneSession struct {
	session.Session
	Questions []session.TaskQuestion `json:"questions,omitempty"`
	Branches  []session.Session      `json:"branches,omitempty"`
	// Access is what the caller may do; it is missing for operators, who may do everything.
	Access account.Right `json:"access,omitempty"`
}

func (s *sessions) get(r *http.Request) (session.Session, error) {
	return s.find(r.Context(), r.PathValue("id"))
}

func (s *sessions) one(r *http.Request) (out oneSession, err error) {
	if out.Session, err = s.get(r); err != nil {
		return out, err
	}
	err = s.db.Read(r.Context(), func(q db.Queryer) (err error) {
		if s.questions != nil {
			out.Questions, err = s.questions.Questions(q, out.ID)
		}
		if err == nil && s.branches != nil {
			out.Branches, err = s.branches.BranchesOf(q, out.ID)
		}
		return err
	})
	if err != nil {
		return out, err
	}
	if out.Access, err = s.people.right(r.Context(), out.ID); err != nil {
		return out, err
	}
	return out, s.hideUnseen(r.Context(), &out)
}

// hideUnseen leaves out what the caller may not see.
func (s *sessions) hideUnseen(ctx context.Context, one *oneSession) error {
	if viewerID(ctx) == "" {
		return nil
	}
	var kept []session.Session
	for _, b := range one.Branches {
		seen, err := s.people.sees(ctx, b.ID)
		if err != nil {
			return err
		}
		if seen {
			kept = append(kept, b)
		}
	}
	one.Branches = kept
	return nil
}

// sessionChange has the fields to change; absent ones stay as they are.
type sessionChange struct {
	Title *string `json:"title,omitempty"`
	// Agent, Model, Effort, and Instructions are those of the next requests; "" follows the
	// configuration.
	Agent        *string `json:"agent,omitempty"`
	Model        *string `json:"model,omitempty"`
	Effort       *string `json:"effort,omitempty"`
	Instructions *string `json:"instructions,omitempty"`
	// Workspace is shared or own; "" follows the configuration.
	Workspace *string `json:"workspace,omitempty"`
	// Pinned, Archived, and Folder say where people find the conversation.
	Pinned   *bool   `json:"pinned,omitempty"`
	Archived *bool   `json:"archived,omitempty"`
	Folder   *string `json:"folder,omitempty"`
}

// maxFolder bounds the name of a folder, in characters.
const maxFolder = 60

// file returns where people find the conversation after the change.
func (c *sessionChange) file(f session.Filing) session.Filing {
	if c.Pinned != nil {
		f.Pinned = *c.Pinned
	}
	if c.Archived != nil {
		f.Archived = *c.Archived
	}
	if c.Folder != nil {
		f.Folder = text.SingleLine(*c.Folder)
	}
	return f
}

// check normalizes the change.
func (c *sessionChange) check() error {
	if c.Title == nil && c.Agent == nil && c.Model == nil && c.Effort == nil && c.Instructions == nil && c.Workspace == nil && c.Pinned == nil && c.Archived == nil && c.Folder == nil {
		return fault.InvalidField("title", "Nothing to change: send title, agent, model, effort, instructions, workspace, pinned, archived, or folder.")
	}
	if c.Title != nil {
		*c.Title = text.SingleLine(*c.Title)
		if n := utf8.RuneCountInString(*c.Title); n == 0 || n > maxTitle {
			return fault.InvalidField("title", "A title has 1 to %d characters.", maxTitle)
		}
	}
	if c.Instructions != nil && len(*c.Instructions) > session.MaxInstructions {
		return fault.InvalidField("instructions", "Instructions have at most %d bytes.", session.MaxInstructions)
	}
	if c.Folder != nil && utf8.RuneCountInString(*c.Folder) > maxFolder {
		return fault.InvalidField("folder", "The name of a folder has at most %d characters.", maxFolder)
	}
	if w := c.Workspace; w != nil && *w != "" && *w != string(session.SharedWorkspace) && *w != string(session.OwnWorkspace) {
		return fault.InvalidField("workspace", "There is no workspace %q. Use shared, own, or nothing, which follows the configuration.", *w)
	}
	return nil
}

// fields names what the change changes.
func (c *sessionChange) fields() string {
	var names []string
	for name, set := range map[string]bool{
		"title": c.Title != nil, "agent": c.Agent != nil, "model": c.Model != nil, "effort": c.Effort != nil, "instructions": c.Instructions != nil,
		"workspace": c.Workspace != nil, "pinned": c.Pinned != nil, "archived": c.Archived != nil, "folder": c.Folder != nil,
	} {
		if set {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// apply returns the choice after the change.
func (c *sessionChange) apply(choice session.Choice) session.Choice {
	for _, field := range []struct{ from, into *string }{{c.Agent, &choice.Agent}, {c.Model, &choice.Model}, {c.Effort, &choice.Effort}, {c.Instructions, &choice.Instructions}, {c.Workspace, (*string)(&choice.Workspace)}} {
		if field.from != nil {
			*field.into = strings.TrimSpace(*field.from)
		}
	}
	return choice
}

func (s *sessions) change(r *http.Request, in sessionChange) (changed session.Session, err error) {
	if err := in.check(); err != nil {
		return changed, err
	}
	if in.Workspace != nil && viewerID(r.Context()) != "" {
		// The shared workspace has the files of other people's conversations.
		return changed, &fault.Error{Kind: fault.Denied, Code: "operators_only", Field: "workspace", Message: "Only operators may choose the workspace of a conversation."}
	}
	id := r.PathValue("id")
	err = s.db.Update(r.Context(), func(tx *db.Tx) error {
		before, err := s.table.Session(tx, id)
		if err != nil {
			return err
		}
		if in.Title != nil {
			if err := s.table.SetTitle(tx, id, *in.Title); err != nil {
				return err
			}
		}
		if filing := in.file(before.Filing); filing != before.Filing {
			if err := s.table.SetFiling(tx, id, filing); err != nil {
				return err
			}
		}
		if choice := in.apply(before.Choice); choice != before.Choice {
			if err := s.checkChoice(in, choice); err != nil {
				return err
			}
			if err := s.table.SetChoice(tx, id, choice); err != nil {
				return err
			}
		}
		if changed, err = s.table.Session(tx, id); err != nil {
			return err
		}
		if err := s.people.note(tx, r.Context(), account.Action{Kind: "change", SessionID: id, Detail: in.fields()}); err != nil {
			return err
		}
		return s.announce(tx, event.SessionUpdated, id+":"+newID(), changed)
	})
	return changed, err
}

// checkChoice checks the changed parts of a choice: a model that has become unknown must
// not prevent a change of the instructions.
func (s *sessions) checkChoice(in sessionChange, choice session.Choice) error {
	if in.Agent == nil && in.Model == nil && in.Effort == nil {
		return nil
	}
	if s.models == nil {
		return &fault.Error{Kind: fault.Unavailable, Code: "no_models", Message: "This server has no models to choose from."}
	}
	if in.Model == nil {
		choice.Model = ""
	}
	if in.Agent == nil {
		choice.Agent = ""
	}
	return s.models.Check(choice)
}

func (s *sessions) delete(r *http.Request) error {
	return s.db.Update(r.Context(), func(tx *db.Tx) error {
		found, err := s.table.Session(tx, r.PathValue("id"))
		if err != nil {
			return err
		}
		if found.ActiveRequest != "" {
			return &fault.Error{Kind: fault.Conflict, Code: "session_running", Message: "A request is running in this conversation. Stop it first, then delete the conversation."}
		}
		if err := s.table.DeleteSession(tx, found.ID); err != nil {
			return err
		}
		if err := s.people.note(tx, r.Context(), account.Action{Kind: "delete", SessionID: found.ID}); err != nil {
			return err
		}
		return s.announce(tx, event.SessionDeleted, found.ID, found)
	})
}

// newID returns an id that sorts by time and contains no colon.
func newID() string { return strings.ToLower(ulid.Make().String()) }
