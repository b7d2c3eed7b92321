package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"lilac/internal/core/environment"
	"lilac/internal/core/session"
	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/telemetry/health"
	"lilac/internal/telemetry/metrics"
)

// Store is what the routes need from the tables. Unknown ids are
// fault.NotFound errors.
type Store interface {
	environment.Inbox
	// CreateSession inserts an idle session.
	CreateSession(tx *db.Tx, s session.Session) error
	// DeleteSession removes a session with its history. One that was promised a
	// message is refused until the runner has it.
	DeleteSession(tx *db.Tx, id string) error
	// Accept notes that a session is promised a message.
	Accept(tx *db.Tx, sessionID, messageID string) error
	Session(q db.Queryer, id string) (session.Session, error)
	// State is what the runner knows of a session, zero if nothing.
	State(q db.Queryer, sessionID string) (session.State, error)
	// Sessions lists the most recently updated first, after the session
	// named by before, or its session.PageToken.
	Sessions(q db.Queryer, limit int, before string) ([]session.Session, error)
	// ListMessages returns the newest limit messages older than the one named by
	// before, oldest first. In the place of a damaged one stands why.
	ListMessages(q db.Queryer, sessionID string, limit int, before string) ([]session.HistoryMessage, error)
	// Requests lists the newest first, older than the one named by before, or its
	// session.PageToken; an empty session means all. A damaged one is session.Damaged.
	Requests(q db.Queryer, sessionID string, limit int, before string) ([]session.Request, error)
	// Asked is the beginning of what a request was asked, "" when nobody asked.
	Asked(q db.Queryer, r session.Request) (string, error)
	Story(q db.Queryer, requestID string) (session.Story, error)
	// Running lists the requests that run now; an empty session means all.
	Running(q db.Queryer, sessionID string) ([]session.Request, error)
	// SetTitle names a session.
	SetTitle(tx *db.Tx, id, title string) error
	// IndexHistory brings what Search looks in up to date.
	IndexHistory(tx *db.Tx) error
	// ReferFiles notes that a session has the files of these parts.
	ReferFiles(tx *db.Tx, sessionID string, parts []chat.Part) error
	// Files lists the files that requests have given, in their order; FileOf is
	// the name and type under which a session has one.
	Files(q db.Queryer, sessionID string, requestIDs []string) ([]session.File, error)
	FileOf(q db.Queryer, sessionID, ref string) (filename, mimeType string, err error)
	// Search finds messages that have all words of the query, the newest
	// first, behind the row named by before; 0 begins.
	Search(q db.Queryer, query string, limit int, before int64) ([]session.SearchResult, error)
	// SessionsTitled lists sessions with the text in their title.
	SessionsTitled(q db.Queryer, text string, limit int) ([]session.Session, error)
}

// Blobs keeps the bytes of attachments.
type Blobs interface {
	Put(ctx context.Context, data []byte) (ref string, err error)
	Get(ctx context.Context, ref string) ([]byte, error)
}

// Options are what the handler is made of.
type Options struct {
	DB  *db.DB
	Bus bus.Bus
	// BusChanges is how often the bus became another one: positions of before
	// are not gone on from.
	BusChanges int64
	// Store may be nil: then there are no sessions, and their routes say so.
	Store Store
	Blobs Blobs
	// FileBytes and TotalBytes bound a file of a prompt and all of them; zero
	// means as much as a prompt can hold.
	FileBytes, TotalBytes int64

	// Token is the operator's token. Without one every route that needs it
	// refuses.
	Token string
	// AllowedHosts are host names (with or without a port) that are ours
	// beside loopback. Hosts, if set, are used instead and may change.
	AllowedHosts []string
	Hosts        *Hosts
	// Addr is where the server listens, for the links it makes.
	Addr string
	// Logins hands out login links; nil makes one.
	Logins *Logins
	// Page serves what no route of the API does.
	Page http.Handler

	// Platforms are the clients whose conversations begin on a platform and
	// nowhere else.
	Platforms []string
	// Workflows may be nil: then there are none.
	Workflows Workflows
	// Rules may be nil: then there are none.
	Rules *Rules
	// Operators may be nil: then there is no tool server.
	Operators Operators
	// Sources may be nil: then there are none.
	Sources *Sources
	// Tasks may be nil: then there are none.
	Tasks Tasks

	// Health says how the parts of the program are; nil means that it is ready.
	Health  func() health.Report
	Version string
	// Metrics gets what the routes count, and is what /metrics shows; nil makes
	// one. MetricsToken, if set, opens that route and no other.
	Metrics      *metrics.Registry
	MetricsToken string
	// Trace begins a trace of a request to a route and returns what ends it;
	// nil traces nothing.
	Trace func(ctx context.Context, route, traceParent string) (context.Context, func(status int))
	// Settings are the settings that are in force; nil means that they are not told.
	Settings func() []Setting
	Logger   *slog.Logger
	Now      func() time.Time
	// Heartbeat is how often a silent stream says that it lives; default 15 s.
	Heartbeat time.Duration
	// Stopping ends the event streams, which would never end by themselves; nil
	// means that they need not end.
	Stopping context.Context
	// WriteTimeout is how long a reader of a stream may not read; default 30 s.
	WriteTimeout time.Duration

	// unchecked turns the checks of host, origin and token off. It is there
	// for the tests that show what the checks are good for.
	unchecked bool
}

type api struct {
	Options
	started time.Time
	guard   *guard
	stats   stats
	counts  counts
	outages outages
	// webhooks has a place for each that is being read.
	webhooks chan struct{}
	// rendering has a place for the text that is being rendered.
	rendering chan struct{}
}

// class says who may call a route.
type class int

const (
	needsToken class = iota
	// forMetrics is opened by the token for metrics, too.
	forMetrics
	public
	// signed routes ask for a signature instead of a token, and have any host.
	signed
)

type route struct {
	pattern string
	class   class
	handler handler
}

func (a *api) routes() []route {
	return []route{
		{"POST /sessions", needsToken, a.createSession},
		{"GET /sessions", needsToken, a.listSessions},
		{"GET /sessions/{id}", needsToken, a.getSession},
		{"PATCH /sessions/{id}", needsToken, a.renameSession},
		{"DELETE /sessions/{id}", needsToken, a.deleteSession},
		{"GET /sessions/{id}/messages", needsToken, a.listMessages},
		{"GET /sessions/{id}/files/{file}", needsToken, a.getFile},
		{"POST /sessions/{id}/prompt", needsToken, a.prompt},
		{"POST /sessions/{id}/cancel", needsToken, a.cancel},
		{"GET /search", needsToken, a.search},
		{"GET /events", needsToken, a.events},
		{"POST /events", needsToken, a.publishEvent},
		{"POST /webhooks/{name}", signed, a.receiveWebhook},
		{"GET /sources", needsToken, a.listSources},
		{"GET /rules", needsToken, a.listRules},
		{"POST /rules/test", needsToken, a.testRules},
		{"GET /bus/groups", needsToken, a.listGroups},
		{"DELETE /bus/groups/{topic}/{group}", needsToken, a.dropGroup},
		{"GET /bus/{topic}", needsToken, a.fetchTopic},
		{"GET /bus/{topic}/tail", needsToken, a.tailTopic},
		{"GET /requests", needsToken, a.listRequests},
		{"GET /requests/{id}", needsToken, a.getRequest},
		{"POST /requests/{id}/continue", needsToken, a.answer(session.Continue)},
		{"POST /requests/{id}/stop", needsToken, a.answer(session.Stop)},
		{"GET /tasks", needsToken, a.listTasks},
		{"GET /tasks/{id}", needsToken, a.getTask},
		{"GET /tasks/{id}/output", needsToken, a.getTaskOutput},
		{"POST /tasks/{id}/stop", needsToken, a.stopTask},
		{"GET /dlq", needsToken, a.listDeadLetters},
		{"GET /dlq/{id}", needsToken, a.getDeadLetter},
		{"POST /dlq/{id}/replay", needsToken, a.replayDeadLetter},
		{"DELETE /dlq/{id}", needsToken, a.dropDeadLetter},
		{"GET /workflows", needsToken, a.listWorkflows},
		{"GET /workflows/{id}", needsToken, a.getWorkflow},
		{"POST /workflows/{id}/cancel", needsToken, a.cancelWorkflow},
		{"POST /tools/tokens", needsToken, a.createToolToken},
		{"GET /tools/tokens", needsToken, a.listToolTokens},
		{"DELETE /tools/tokens/{name}", needsToken, a.revokeToolToken},
		{"GET /tools/calls", needsToken, a.listToolCalls},
		{"GET /status", needsToken, a.status},
		{"GET /settings", needsToken, a.settings},
		{"POST /render", needsToken, a.render},
		{"POST /login-codes", needsToken, a.newLoginCode},
		{"GET /login", public, a.login},
		{"GET /healthz", public, a.healthz},
		{"GET /readyz", public, a.readyz},
		{"GET /metrics", forMetrics, a.metrics},
		{"GET /openapi.json", needsToken, a.openAPI},
	}
}

// New returns the handler of every route.
func New(o Options) http.Handler {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logins == nil {
		o.Logins = NewLogins(o.Now)
	}
	if o.Heartbeat <= 0 {
		o.Heartbeat = 15 * time.Second
	}
	if o.WriteTimeout <= 0 {
		o.WriteTimeout = 30 * time.Second
	}
	if o.Hosts == nil {
		o.Hosts = NewHosts(o.AllowedHosts)
	}
	if o.Metrics == nil {
		o.Metrics = &metrics.Registry{}
	}
	a := &api{Options: o, started: o.Now(), guard: newGuard(o), webhooks: make(chan struct{}, webhooksAtOnce), rendering: make(chan struct{}, 1)}
	a.counts = a.declare(o.Metrics)
	a.describeSources()
	mux := http.NewServeMux()
	anyHost := map[string]bool{}
	for _, r := range a.routes() {
		anyHost[r.pattern] = r.class == signed
		mux.Handle(r.pattern, a.watch(r.pattern, a.guard.protect(r.class, a.adapt(r.handler), a.refuse)))
	}
	mux.Handle("/", a.watch(otherRoutes, a.guard.protect(needsToken, a.page(), a.refuse)))
	refuse := func(w http.ResponseWriter, r *http.Request, err error) {
		a.watch(otherRoutes, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { a.refuse(w, r, err) })).ServeHTTP(w, r)
	}
	return a.guard.ours(mux, refuse, func(r *http.Request) bool {
		_, pattern := mux.Handler(r)
		return anyHost[pattern]
	})
}
