package session

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"lilac/internal/agent"
	"lilac/internal/agent/tool"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/grant"
	"lilac/internal/foundation/policy"
	"lilac/internal/model/llm"
)

const (
	// DefaultMaxActive is how many sessions may run at the same time.
	DefaultMaxActive = 1024
	// DefaultRetries is how often a failed model call is repeated.
	DefaultRetries = 5
)

// Options configures a [Service]. DB, Bus, Tables and Model are required; the zero
// value of every other field works.
type Options struct {
	DB     *db.DB
	Bus    Bus
	Tables Tables
	// Model returns the model of a session's next request.
	Model func(ctx context.Context, s Session) (llm.Model, error)
	// Opening returns what a conversation that begins now knows besides its instructions, such
	// as a catalog. It stays as it is until a compaction. nil means nothing.
	Opening func(ctx context.Context, client, sessionID string) string
	// Lasting returns what of messages that a compaction removes must stay in the conversation
	// as it is; nil means nothing. size bounds it, in bytes.
	Lasting func(removed []chat.Message, size int) string
	// ChannelInstructions returns the instructions of a session's agent and channel; nil means
	// that there are none.
	ChannelInstructions func(q db.Queryer, s Session) string

	// ChannelAgent returns the configured agent of a session's channel, or ""; nil means that no
	// channel has one. NamedAgent returns the terms of a configured agent; nil means that there
	// are none.
	ChannelAgent func(q db.Queryer, s Session) string
	NamedAgent   func(name string) AgentTerms

	Tools []tool.Tool
	// Pinned returns further tools, which may come and go; nil means none. A conversation keeps
	// the tools with which it began, and is told about others.
	Pinned func() []tool.Tool
	// Workspace returns the directory of a workspace: that of a session, or the shared one for "".
	// MakeWorkspace creates it before a tool runs. nil means that there are no files.
	Workspace     func(sessionID string) (dir string)
	MakeWorkspace func(sessionID string) error
	// Settings are the initial settings; see [Service.Configure].
	Settings Settings

	// Retries is how often a failed model call is repeated: 0 means
	// DefaultRetries, a negative number means never.
	Retries int
	// Backoff is the delay before a repetition; nil means the agent's own.
	Backoff func(retry int) time.Duration
	// MaxActive is how many sessions may run at the same time; 0 means
	// DefaultMaxActive.
	MaxActive int

	// Trial is how long the first trial of a request lasts after an unclean stop; 0
	// means DefaultTrial.
	Trial time.Duration

	// Surfaces describes the surfaces; without it no surface has a relay, a title
	// or instructions, and somebody can answer everywhere.
	Surfaces Surfaces
	// Policy decides about the budgets of requests; without it each session pays
	// for itself and every request may continue.
	Policy Policy
	// Observer is notified of runs; it may be nil.
	Observer Observer
	// Blobs holds attachments; without it they are reported as unavailable.
	Blobs Blobs
	// Transcriber turns recordings into text for models that do not hear; it may be nil.
	Transcriber Transcriber

	Logger *slog.Logger
	Now    func() time.Time
	// Awake returns how long the machine has been awake since some moment. Only this time
	// counts as working time; by default, it is the time of Go's monotonic clock, which a
	// suspend stops and a change of the wall clock does not move.
	Awake func() time.Duration
}

// AgentTerms are the terms of a configured agent that concern the requests of a session. Its
// model and its instructions come with those of the session.
type AgentTerms struct {
	// Tools restricts what its requests may use.
	Tools grant.Tools
	// Limits bounds each of its requests, in addition to the limits of all requests.
	Limits Budget
}

// Surfaces describes the surfaces of sessions, by the name of their client.
type Surfaces interface {
	// HasRelay reports whether a relay shows the output of the client's requests.
	// The relay is told when they start.
	HasRelay(client string) bool
	// Title returns the title of a session that a message creates; "" means that
	// the first message becomes the title.
	Title(q db.Queryer, client, sessionID string) string
	// Grant returns what requests in a session may use, as its surface and channel are
	// configured. rules are those whose events the request handles.
	Grant(q db.Queryer, client, sessionID string, rules []string) (grant.Grant, error)
	// Workspace returns the session in whose own workspace a request works, or "" for the shared
	// one. rules are those whose events the request handles.
	Workspace(q db.Queryer, s Session, rules []string) (sessionID string, err error)
	// Instructions builds the model's instructions from the operator's. workspace is the
	// directory of the request's workspace.
	Instructions(operators, client, workspace string) string
	// Unattended reports whether nobody can answer a question in the client's
	// sessions: a request that reaches a limit there fails at once.
	Unattended(client string) bool
	// NewConversation returns the command that begins a new conversation on the
	// client's surface, or "".
	NewConversation(client string) string
	// Agent returns the id and the name of the sub-agent that works in a session; "" means
	// the main agent.
	Agent(q db.Queryer, sessionID string) (id, name string, err error)
}

// Policy decides about the budgets and the calls of requests.
type Policy interface {
	// Payer returns the session whose limits apply to the work of a session and
	// which is charged for it; "" means the session itself.
	Payer(q db.Queryer, sessionID string) (string, error)
	// Admit is called before each model call; more is the request's usage beyond
	// its records. A refusal ends the request.
	Admit(ctx context.Context, requestID, sessionID string, more chat.Usage) (*Refusal, error)
	// Permit decides whether a call of a tool or callable may run.
	Permit(ctx context.Context, call PolicyCall) (policy.Decision, error)
	// RequestEnded is called in the transaction that ends a request; an error
	// undoes the transaction.
	RequestEnded(tx *db.Tx, r Request) error
}

// PolicyCall is a call about which the policy decides.
type PolicyCall struct {
	// SessionID and Client are those of the request that makes the call.
	SessionID, Client string
	// Tool is the name of the tool or callable.
	Tool  string
	Input json.RawMessage
	// Grant names the people for whom the request works.
	Grant grant.Grant
}

// Refusal ends a request that may not continue.
type Refusal struct {
	// Reason is the text for people. A quiet refusal shows it only in the records,
	// because people were notified elsewhere.
	Reason string
	Quiet  bool
	// Drop lists queued requests of the session that may not start either.
	Drop       []string
	DropReason string
}

// Observer is notified of runs, for example to trace them.
type Observer interface {
	// ObserveRun returns the context of the run and a function to call at its end.
	ObserveRun(ctx context.Context, r RunInfo) (context.Context, func(err error))
}

// RunInfo identifies a run.
type RunInfo struct {
	RequestID, SessionID, Client string
	// TraceParent is that of the message that started the request, or "".
	TraceParent string
}

// Blobs holds attachments.
type Blobs interface {
	// Get returns the content of a "blob:sha256:…" reference.
	Get(ctx context.Context, ref string) ([]byte, error)
}

// Transcriber turns recordings into text.
type Transcriber interface {
	// Transcribe returns false if no endpoint is configured.
	Transcribe(ctx context.Context, filename, mediaType string, recording []byte) (text string, configured bool, err error)
}

// Settings may change while the service runs. Changed limits apply at once; a
// request keeps the other settings that it started with.
type Settings struct {
	// System is the operator's part of the model's instructions.
	System string
	Limits Limits
	// ToolTimeout bounds a tool call; 0 means that only the tools' own limits do.
	ToolTimeout time.Duration
	// CompactAt and Answer are as in [agent.Config].
	CompactAt float64
	Answer    agent.Bounds
}

// withDefaults fills in what the caller left out.
func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Awake == nil {
		begun := time.Now()
		o.Awake = func() time.Duration { return time.Since(begun) }
	}
	if o.MaxActive <= 0 {
		o.MaxActive = DefaultMaxActive
	}
	if o.Trial <= 0 {
		o.Trial = DefaultTrial
	}
	switch {
	case o.Retries == 0:
		o.Retries = DefaultRetries
	case o.Retries < 0:
		o.Retries = 0
	}
	if o.Surfaces == nil {
		o.Surfaces = plainSurfaces{}
	}
	if o.Policy == nil {
		o.Policy = openPolicy{}
	}
	if o.NamedAgent == nil {
		o.NamedAgent = func(string) AgentTerms { return AgentTerms{} }
	}
	return o
}

// plainSurfaces is the default of [Options.Surfaces].
type plainSurfaces struct{}

func (plainSurfaces) HasRelay(string) bool                       { return false }
func (plainSurfaces) Title(db.Queryer, string, string) string    { return "" }
func (plainSurfaces) Instructions(operators, _, _ string) string { return operators }
func (plainSurfaces) Workspace(db.Queryer, Session, []string) (string, error) {
	return "", nil
}

func (plainSurfaces) Unattended(string) bool { return false }
func (plainSurfaces) Grant(db.Queryer, string, string, []string) (grant.Grant, error) {
	return nil, nil
}
func (plainSurfaces) NewConversation(string) string { return "" }
func (plainSurfaces) Agent(db.Queryer, string) (id, name string, err error) {
	return "", "", nil
}

// openPolicy is the default of [Options.Policy].
type openPolicy struct{}

func (openPolicy) Payer(db.Queryer, string) (string, error) { return "", nil }
func (openPolicy) RequestEnded(*db.Tx, Request) error       { return nil }
func (openPolicy) Permit(context.Context, PolicyCall) (policy.Decision, error) {
	return policy.Decision{Verdict: policy.Allow}, nil
}

func (openPolicy) Admit(context.Context, string, string, chat.Usage) (*Refusal, error) {
	return nil, nil
}
