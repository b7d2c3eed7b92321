package httpapi

import (
	"net/http"
	"strings"

	"lilac/internal/agent/mcpclient"
	"lilac/internal/core/account"
	"lilac/internal/foundation/fault"
)

// api connects the groups of routes.
type api struct {
	sessions    *sessions
	messages    *messages
	prompts     *prompts
	cancels     *cancels
	files       *files
	searches    *searches
	streams     *streams
	events      *envEvents
	rules       *rules
	sources     *sources
	groups      *groups
	usage       *usage
	topics      *topics
	requests    *requests
	approvals   *approvals
	pairings    *pairings
	tasks       *tasks
	deadLetters *deadLetters
	workflows   *workflows
	toolTokens  *toolTokens
	mcp         func() []mcpclient.Status
	retry       func(name string) error
	operations  *operations
	renderer    *markdownRenderer
	logins      *loginRoutes
	models      modelRoutes
	setups      setups
	accounts    *accounts
	entrances   *entrances
	people      people

	errors *errorWriter
	guard  *guard
	page   http.Handler
}

func newAPI(o Options) *api {
	t := o.Tables
	a := &api{page: o.Page, guard: newGuard(o), errors: &errorWriter{log: o.Logger, now: o.Now}}
	a.people = people{o.Accounts}
	a.sessions = &sessions{people: a.people, seen: t.Seen, db: o.DB, table: t.Sessions, questions: t.Questions, branches: t.Branches, inbox: t.Inbox, platforms: o.Platforms, models: o.Models, now: o.Now}
	a.models, a.setups = modelRoutes{o.Models}, setups{o.Setup}
	a.requests = &requests{people: a.people, seen: t.Seen, db: o.DB, table: t.Requests, accepted: t.Accepted, sessions: a.sessions}
	a.approvals = &approvals{db: o.DB, table: t.Accepted, sessions: a.sessions, service: o.Approvals}
	a.pairings = &pairings{o.Pairings}
	a.files = &files{db: o.DB, table: t.Files, blobs: o.Blobs, sessions: a.sessions}
	a.renderer = newRenderer()
	a.streams = &streams{
		people: a.people,
		db:     o.DB, bus: o.Bus, sessions: a.sessions, requests: t.Requests, now: o.Now,
		heartbeat: o.Heartbeat, writeTimeout: o.WriteTimeout, stopping: o.Stopping,
	}
	a.messages = &messages{
		db: o.DB, table: t.History, sessions: a.sessions, requests: a.requests, files: a.files, streams: a.streams, renderer: a.renderer,
	}
	a.prompts = &prompts{
		people: a.people,
		db:     o.DB, table: t.Accepted, inbox: t.Inbox, sessions: a.sessions, files: a.files,
		attachments: &attachments{blobs: o.Blobs, fileBytes: smaller(o.FileBytes, maxFile), allBytes: smaller(o.TotalBytes, maxFiles)},
	}
	a.cancels = &cancels{people: a.people, db: o.DB, inbox: t.Inbox, sessions: a.sessions, requests: a.requests}
	a.searches = &searches{db: o.DB, history: t.History, sessions: t.Sessions, seen: t.Seen}
	a.events = &envEvents{db: o.DB, bus: o.Bus, inbox: t.Inbox, sessions: a.sessions, now: o.Now}
	a.rules = &rules{db: o.DB, rules: o.Rules, events: a.events, now: o.Now}
	a.sources = &sources{sources: o.Sources, inbox: t.Inbox, now: o.Now, reading: newBodyReaders(o.refuseNewest)}
	a.usage = &usage{db: o.DB, table: t.Requests, sessions: a.sessions, now: o.Now}
	a.groups, a.deadLetters = &groups{o.Bus}, &deadLetters{o.Bus}
	a.topics = &topics{bus: o.Bus, streams: a.streams}
	a.tasks, a.workflows, a.toolTokens = &tasks{service: o.Tasks, people: a.people}, &workflows{service: o.Workflows, people: a.people}, &toolTokens{o.Operators}
	a.mcp, a.retry = o.MCP, o.RetryMCP
	a.logins = &loginRoutes{logins: o.Logins, token: o.Token, addr: o.Addr, now: o.Now, fromNode: o.FromNode}
	suffix := cookieName(o.Token)[len("lilac_token"):]
	a.accounts = &accounts{people: a.people, sessions: a.sessions, url: o.PublicURL, cookie: personCookieName(o.Token)}
	a.entrances = &entrances{people: a.people, cookie: personCookieName(o.Token), next: "lilac_next" + suffix, flow: "lilac_oidc" + suffix, oidc: o.OIDC, url: o.PublicURL, log: o.Logger}
	if o.OIDC != nil {
		a.accounts.provider = o.OIDC.Name()
	}
	a.operations = &operations{
		health: o.Health, registry: o.Metrics, settings: o.Settings, version: o.Version,
		started: o.Now(), now: o.Now, streams: a.streams, document: lazyDocument(a.routes), addr: o.Addr, nodes: o.Nodes,
	}
	return a
}

// New returns the handler of all routes and the page.
func New(o Options) http.Handler {
	o.setDefaults()
	a, traffic := newAPI(o), newTraffic(o)
	a.measure(o.Metrics)
	mux := http.NewServeMux()
	classes := map[string]class{}
	for _, r := range a.routes() {
		patterns := []string{r.pattern()}
		if r.class == signed { // other sites let people enter the address, and do not follow a redirection
			patterns = append(patterns, r.pattern()+"/{$}")
		}
		for _, pattern := range patterns {
			classes[pattern] = r.class
			mux.Handle(pattern, traffic.watch(r.pattern(), a.guard.authenticate(&r, a.errors.adapt(a.recorded(&r, r.handler())), a.refuse)))
		}
	}
	if o.MCPServer != nil {
		// Many programs don't follow a redirection, or lose the token on the way.
		for _, pattern := range []string{"/mcp", "/mcp/{$}"} {
			classes[pattern] = forPrograms
			mux.Handle(pattern, traffic.watch("/mcp", o.MCPServer))
		}
	}
	if o.OpenAI != nil {
		classes["/v1/"] = forPrograms
		mux.Handle("/v1/", traffic.watch("/v1/", o.OpenAI))
	}
	others := a.otherPaths()
	mux.Handle("/", traffic.watch(otherRoutes, a.guard.authenticate(&route{op: account.Use}, others, a.refuse)))
	// Browsers and phones fetch what an app on the home screen needs without cookies.
	for _, file := range []string{"icon.png", "icon.svg", "lilac.webmanifest"} {
		pattern := "GET /assets/{version}/" + file
		classes[pattern] = pageFile
		mux.Handle(pattern, traffic.watch(otherRoutes, others))
	}
	refuse := func(w http.ResponseWriter, r *http.Request, err error) {
		traffic.watch(otherRoutes, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { a.refuse(w, r, err) })).ServeHTTP(w, r)
	}
	return a.guard.checkOrigin(mux, refuse, func(r *http.Request) class {
		_, pattern := mux.Handler(r)
		if pattern == "/" && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
			return pageFile
		}
		return classes[pattern]
	})
}

// otherPaths serves paths that match no route: the page, or an error that names
// the allowed methods.
func (a *api) otherPaths() http.Handler {
	methods := map[string][]string{} // by path
	for _, r := range a.routes() {
		methods[r.path] = append(methods[r.path], r.method)
	}
	paths := http.NewServeMux()
	for path, allowed := range methods {
		paths.Handle(path, a.errors.adapt(func(w http.ResponseWriter, r *http.Request) error {
			w.Header().Set("Allow", strings.Join(allowed, ", "))
			return fault.New(fault.NotAllowed, "This path does not support %s. Use %s.", r.Method, strings.Join(allowed, " or "))
		}))
	}
	paths.Handle("/", a.errors.adapt(func(w http.ResponseWriter, r *http.Request) error {
		if a.page == nil || r.Method != http.MethodGet && r.Method != http.MethodHead {
			return fault.New(fault.NotFound, "There is nothing at this path.")
		}
		a.page.ServeHTTP(w, r)
		return nil
	}))
	return paths
}
