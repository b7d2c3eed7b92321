package acp

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"slices"
	"sync"
	"time"

	sdk "github.com/coder/acp-go-sdk"

	"lilac/internal/core/session"
	"lilac/internal/foundation/fault"
	"lilac/internal/operate/client"
	"lilac/internal/operate/transcript"
)

const (
	// clientName is the client of the conversations that editors begin.
	clientName = "acp"
	// historyPage is the number of messages that session/load shows.
	historyPage = 200
	// listPage is the number of conversations of one page of session/list.
	listPage = 50
	// maxOpen limits the conversations that one editor follows at a time.
	maxOpen = 100
)

// listed are the clients whose conversations an editor can continue. Those of a platform
// belong to it.
var listed = []string{clientName, "terminal", "web"}

// Options are the parts that an [Agent] needs.
type Options struct {
	Server  *client.Client
	Version string
	Logger  *slog.Logger
}

// Agent is the agent's side of one connection. It implements the interfaces of the protocol's
// library.
type Agent struct {
	o    Options
	conn *sdk.AgentSideConnection
	ctx  context.Context
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu   sync.Mutex
	open map[sdk.SessionId]*conversation
}

// Serve speaks the protocol on in and out until in ends or ctx does. Answers that run then
// continue on the server.
func Serve(ctx context.Context, o Options, in io.Reader, out io.Writer) {
	a := &Agent{o: o, open: map[sdk.SessionId]*conversation{}}
	a.ctx, a.stop = context.WithCancel(ctx)
	// The connection calls the agent as soon as it exists.
	a.mu.Lock()
	a.conn = sdk.NewAgentSideConnection(a, out, in)
	a.conn.SetLogger(o.Logger)
	a.mu.Unlock()
	select {
	case <-ctx.Done():
	case <-a.conn.Done():
	}
	a.stop()
	a.wg.Wait()
}

// Initialize says what the agent can do.
func (a *Agent) Initialize(_ context.Context, _ sdk.InitializeRequest) (sdk.InitializeResponse, error) {
	return sdk.InitializeResponse{
		ProtocolVersion: sdk.ProtocolVersionNumber,
		AgentInfo:       &sdk.Implementation{Name: "lilac", Title: sdk.Ptr("Lilac"), Version: a.o.Version},
		AuthMethods:     []sdk.AuthMethod{},
		AgentCapabilities: sdk.AgentCapabilities{
			LoadSession:        true,
			PromptCapabilities: sdk.PromptCapabilities{Image: true, Audio: true, EmbeddedContext: true},
			SessionCapabilities: sdk.SessionCapabilities{
				Close: &sdk.SessionCloseCapabilities{}, List: &sdk.SessionListCapabilities{}, Resume: &sdk.SessionResumeCapabilities{},
			},
		},
	}, nil
}

// Authenticate refuses every method: whoever can start the command has the server's token.
func (a *Agent) Authenticate(context.Context, sdk.AuthenticateRequest) (sdk.AuthenticateResponse, error) {
	return sdk.AuthenticateResponse{}, sdk.NewInvalidParams(map[string]any{"error": "Lilac needs no authentication here"})
}

// SetSessionMode refuses every mode, because there are none.
func (a *Agent) SetSessionMode(context.Context, sdk.SetSessionModeRequest) (sdk.SetSessionModeResponse, error) {
	return sdk.SetSessionModeResponse{}, sdk.NewInvalidParams(map[string]any{"error": "Lilac has no session modes"})
}

// NewSession begins a conversation.
func (a *Agent) NewSession(ctx context.Context, p sdk.NewSessionRequest) (sdk.NewSessionResponse, error) {
	if len(p.McpServers) > 0 {
		a.o.Logger.Warn("the editor's MCP servers are not used; those of the server's configuration are (mcpServers)")
	}
	created, err := a.o.Server.CreateSession(ctx, clientName, "")
	if err != nil {
		return sdk.NewSessionResponse{}, failure(err)
	}
	if _, err := a.follow(ctx, sdk.SessionId(created.ID), nil); err != nil {
		return sdk.NewSessionResponse{}, failure(err)
	}
	return sdk.NewSessionResponse{SessionId: sdk.SessionId(created.ID), ConfigOptions: a.choices(ctx, created)}, nil
}

// LoadSession opens a conversation and shows its messages.
func (a *Agent) LoadSession(ctx context.Context, p sdk.LoadSessionRequest) (sdk.LoadSessionResponse, error) {
	stored, err := a.follow(ctx, p.SessionId, func(entries []transcript.Entry) {
		for i, e := range entries {
			for _, update := range replayed(e, i) {
				a.show(p.SessionId, update)
			}
		}
	})
	if err != nil {
		return sdk.LoadSessionResponse{}, failure(err)
	}
	return sdk.LoadSessionResponse{ConfigOptions: a.choices(ctx, stored)}, nil
}

// ResumeSession opens a conversation without its messages.
func (a *Agent) ResumeSession(ctx context.Context, p sdk.ResumeSessionRequest) (sdk.ResumeSessionResponse, error) {
	stored, err := a.follow(ctx, p.SessionId, nil)
	if err != nil {
		return sdk.ResumeSessionResponse{}, failure(err)
	}
	return sdk.ResumeSessionResponse{ConfigOptions: a.choices(ctx, stored)}, nil
}

// replayed returns the updates that show one part of a stored conversation, the i-th.
func replayed(e transcript.Entry, i int) []sdk.SessionUpdate {
	switch e.Kind {
	case "user":
		return []sdk.SessionUpdate{sdk.UpdateUserMessageText(e.Text)}
	case "answer":
		return []sdk.SessionUpdate{sdk.UpdateAgentMessageText(e.Text)}
	case "thinking":
		return []sdk.SessionUpdate{sdk.UpdateAgentThoughtText(e.Text)}
	case "tool":
		status := sdk.ToolCallStatusCompleted
		if e.Failed {
			status = sdk.ToolCallStatusFailed
		}
		id := sdk.ToolCallId(fmt.Sprintf("stored-%d/%s", i, e.ToolCallID))
		opts := []sdk.ToolCallStartOpt{sdk.WithStartKind(kindOf(e.ToolName)), sdk.WithStartStatus(status)}
		if e.Output != "" {
			opts = append(opts, sdk.WithStartContent([]sdk.ToolCallContent{sdk.ToolContent(sdk.TextBlock(e.Output))}))
		}
		return []sdk.SessionUpdate{sdk.StartToolCall(id, e.ToolName+" "+e.Text, opts...)}
	case "note":
		return []sdk.SessionUpdate{sdk.UpdateAgentMessageText("\n\n*" + e.Text + "*\n\n")}
	}
	return nil
}

// ListSessions lists the conversations that an editor can continue, newest first.
func (a *Agent) ListSessions(ctx context.Context, p sdk.ListSessionsRequest) (sdk.ListSessionsResponse, error) {
	page := client.Page{Limit: listPage}
	if p.Cursor != nil {
		page.Before = *p.Cursor
	}
	found, next, err := a.o.Server.Sessions(ctx, page)
	if err != nil {
		return sdk.ListSessionsResponse{}, failure(err)
	}
	// The protocol demands a directory; the server has one workspace for all of them.
	dir := "/"
	if p.Cwd != nil {
		dir = *p.Cwd
	}
	out := sdk.ListSessionsResponse{Sessions: []sdk.SessionInfo{}}
	for _, s := range found {
		if !slices.Contains(listed, s.Client) {
			continue
		}
		info := sdk.SessionInfo{SessionId: sdk.SessionId(s.ID), Cwd: dir, UpdatedAt: sdk.Ptr(time.UnixMilli(s.UpdatedAt).UTC().Format(time.RFC3339))}
		if s.Title != "" {
			info.Title = &s.Title
		}
		out.Sessions = append(out.Sessions, info)
	}
	if next != "" {
		out.NextCursor = &next
	}
	return out, nil
}

// CloseSession stops the running request, as the protocol demands, and follows the
// conversation no longer.
func (a *Agent) CloseSession(ctx context.Context, p sdk.CloseSessionRequest) (sdk.CloseSessionResponse, error) {
	err := a.Cancel(ctx, sdk.CancelNotification{SessionId: p.SessionId})
	a.leave(p.SessionId)
	return sdk.CloseSessionResponse{}, err
}

// Prompt sends a message and returns when its request has ended, or when the agent asks
// something that only a message can answer.
func (a *Agent) Prompt(ctx context.Context, p sdk.PromptRequest) (sdk.PromptResponse, error) {
	c, err := a.opened(ctx, p.SessionId)
	if err != nil {
		return sdk.PromptResponse{}, failure(err)
	}
	message, err := messageOf(p.Prompt)
	if err != nil {
		return sdk.PromptResponse{}, err
	}
	request, before := "", c.cancelCount()
	q := c.question()
	if q != nil && len(q.Options) == 0 {
		request = q.Request
		if err = a.answer(q, session.Replied, message.Content); err == nil {
			c.answered(q)
		}
	} else {
		var accepted client.Accepted
		if q != nil {
			c.ask(*q) // the message waits behind it
		}
		// The message is sent even if the editor withdraws it: Cancel then stops its request.
		accepted, err = a.o.Server.Send(context.WithoutCancel(ctx), string(p.SessionId), message)
		request = accepted.RequestID
	}
	if err != nil {
		return sdk.PromptResponse{}, failure(err)
	}
	end, err := c.wait(a.ctx, request, before, func() error { return a.o.Server.Cancel(a.ctx, string(c.id), request) })
	switch {
	case err != nil:
		return sdk.PromptResponse{}, failure(err)
	case end.Failure != "":
		return sdk.PromptResponse{}, &sdk.RequestError{Code: -32603, Message: end.Failure}
	}
	out := sdk.PromptResponse{StopReason: end.Reason}
	if u := end.Usage; u != nil {
		out.Usage = &sdk.Usage{InputTokens: int(u.InputTokens), OutputTokens: int(u.OutputTokens), TotalTokens: int(u.InputTokens + u.OutputTokens)}
	}
	return out, nil
}

// Cancel stops what the editor waits for in a conversation; its prompts then end as
// cancelled.
func (a *Agent) Cancel(_ context.Context, p sdk.CancelNotification) error {
	a.mu.Lock()
	c := a.open[p.SessionId]
	a.mu.Unlock()
	if c != nil {
		c.cancelPrompts()
	}
	return nil
}

// SetSessionConfigOption chooses the model or the effort of a conversation.
func (a *Agent) SetSessionConfigOption(ctx context.Context, p sdk.SetSessionConfigOptionRequest) (sdk.SetSessionConfigOptionResponse, error) {
	v := p.ValueId
	if v == nil || v.ConfigId != "model" && v.ConfigId != "effort" {
		return sdk.SetSessionConfigOptionResponse{}, sdk.NewInvalidParams(map[string]any{"error": "the options are model and effort"})
	}
	chosen, err := a.o.Server.Choose(ctx, string(v.SessionId), map[string]string{string(v.ConfigId): string(v.Value)})
	if err != nil {
		return sdk.SetSessionConfigOptionResponse{}, failure(err)
	}
	return sdk.SetSessionConfigOptionResponse{ConfigOptions: a.choices(ctx, chosen)}, nil
}

// choices returns the models and efforts to choose from, none if the server cannot say.
func (a *Agent) choices(ctx context.Context, s session.Session) []sdk.SessionConfigOption {
	list, err := a.o.Server.Models(ctx)
	if err != nil {
		a.o.Logger.Warn("the models to choose from are unknown", "error", err)
		return nil
	}
	models := []sdk.SessionConfigSelectOption{{Name: list.Default + " (default)", Value: "default"}}
	for _, m := range list.Models {
		if m.Configured || m.Model == s.Model {
			models = append(models, sdk.SessionConfigSelectOption{Name: m.Model, Value: sdk.SessionConfigValueId(m.Model)})
		}
	}
	efforts := []sdk.SessionConfigSelectOption{{Name: "default", Value: "default"}}
	for _, e := range list.Efforts {
		efforts = append(efforts, sdk.SessionConfigSelectOption{Name: e, Value: sdk.SessionConfigValueId(e)})
	}
	return []sdk.SessionConfigOption{
		option("model", "Model", sdk.SessionConfigOptionCategoryModel, s.Model, models),
		option("effort", "Effort", sdk.SessionConfigOptionCategoryThoughtLevel, s.Effort, efforts),
	}
}

func option(id, name string, category sdk.SessionConfigOptionCategory, current string, values sdk.SessionConfigSelectOptionsUngrouped) sdk.SessionConfigOption {
	if current == "" {
		current = "default"
	}
	return sdk.SessionConfigOption{Select: &sdk.SessionConfigOptionSelect{
		Id: sdk.SessionConfigId(id), Name: name, Category: &category, Type: "select",
		CurrentValue: sdk.SessionConfigValueId(current), Options: sdk.SessionConfigSelectOptions{Ungrouped: &values},
	}}
}

// answer answers a question of a request.
func (a *Agent) answer(q *Question, answer session.Answer, reply string) error {
	in := map[string]any{"pause": q.Number, "answer": answer, "reply": reply}
	return a.o.Server.Call(a.ctx, "POST", "/requests/"+url.PathEscape(q.Request)+"/answer", in, nil)
}

// show sends an update to the editor. An editor that does not read it any more has closed
// the connection, which ends [Serve].
func (a *Agent) show(id sdk.SessionId, update sdk.SessionUpdate) {
	if err := a.connection().SessionUpdate(a.ctx, sdk.SessionNotification{SessionId: id, Update: update}); err != nil && a.ctx.Err() == nil {
		a.o.Logger.Warn("cannot tell the editor", "session_id", id, "error", err)
	}
}

func (a *Agent) connection() *sdk.AgentSideConnection {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.conn
}

// failure returns an error as the editor shows it.
func failure(err error) error {
	code := -32603
	switch fault.KindOf(err) {
	case fault.Invalid:
		code = -32602
	case fault.NotFound:
		code = -32002
	}
	return &sdk.RequestError{Code: code, Message: fault.ToWire(err).Message}
}
