package httpapi

import (
	"encoding/json"
	"net/http"
	"reflect"
	"slices"

	"lilac/internal/core/account"
	"lilac/internal/core/session"
)

// class says who may use a route, and which Host headers it accepts.
type class int

const (
	// needsToken requires the operator's token and an allowed host.
	needsToken class = iota
	// needsMetricsToken also accepts the metrics token, and an IP address as the
	// host, because a scraper addresses each instance by its IP address.
	needsMetricsToken
	// loginLink requires the one-time code of a login link and an allowed host.
	loginLink
	// public needs no token and accepts every host: health probes use pod
	// addresses, service names, or no Host header at all.
	public
	// signed requires a signature, which the handler checks, and accepts every host.
	// No page can make a signature, so the public host name need not be allowed for
	// the rest of the API.
	signed
	// entrance needs no token and requires an allowed host. Links of other sites may lead
	// to it, because it does nothing for a browser without a secret.
	entrance
	// pageFile is like needsToken, but accepts every Origin. It is for files that are the same for
	// everybody.
	pageFile
	// forPrograms accepts the tokens of programs, which the handler checks, and no cookie. Pages of the
	// sites that the configuration lists may use it (crossorigin.go).
	forPrograms
)

// route declares one operation of the API.
type route struct {
	method, path string
	class        class
	// op is the kind of call, which says who may make it besides the holder of the operator's
	// token. The zero value is for operators only, so that a new route is safe.
	op account.Operation
	// about finds the conversation of an operation in a conversation; the zero value is the
	// session in the path.
	about subject
	// records is the kind of action to record after a successful call, unless the handler does
	// that itself.
	records string

	summary     string
	description string
	params      []param
	// needs returns an error if the server was built without the part that the
	// route serves; nil means that the route always works.
	needs func() error
	// status is the status of success, whose response is described by result.
	status int
	result string
	// others are documented responses besides success and the default error.
	others []response
	endpoint
}

// response is a documented response besides success.
type response struct {
	status int
	result string
	body   reflect.Type
}

// param is a documented query parameter, or a header if in says so.
type param struct {
	name, in string
	doc      string
	schema   string // JSON
	required bool
}

func (r route) pattern() string { return r.method + " " + r.path }

// queryNames lists the declared query parameters.
func (r route) queryNames() []string {
	names := []string{}
	for _, p := range r.params {
		if p.in == "" {
			names = append(names, p.name)
		}
	}
	return names
}

// handler returns the handler of the route: it checks that the part exists and
// that the query has no undeclared parameter, and calls the endpoint.
func (r route) handler() handler {
	serve := r.handle(r.status)
	names := r.queryNames()
	checked := r.method == http.MethodGet && r.class == needsToken && r.params != nil
	return func(w http.ResponseWriter, req *http.Request) error {
		if r.needs != nil {
			if err := r.needs(); err != nil {
				return err
			}
		}
		if checked {
			if err := checkQuery(req, names); err != nil {
				return err
			}
		}
		return serve(w, req)
	}
}

// Parameters that several routes share.
var (
	limitParam   = param{name: "limit", doc: "Maximum number of entries.", schema: `{"type":"integer","minimum":1,"maximum":1000,"default":50}`}
	beforeParam  = param{name: "before", doc: "Continue the list after this id, or at the next of an earlier response. A next stays valid when its entry changes or is deleted.", schema: `{"type":"string"}`}
	beforeID     = param{name: "before", doc: "Continue the list after this id.", schema: `{"type":"string"}`}
	sessionParam = param{name: "session_id", doc: "Only this session.", schema: `{"type":"string"}`}
	fromParam    = param{name: "from", doc: "begin replays the retained events.", schema: `{"type":"string","enum":["begin","now"]}`}
	afterParam   = param{name: "after", doc: "Start after this position.", schema: `{"type":"string"}`}
)

func list(filters ...param) []param { return append(filters, limitParam, beforeParam) }

func flag(name, doc string) param {
	return param{name: name, doc: doc, schema: `{"type":"string","enum":["0","1","true","false"]}`}
}

func header(name, doc string) param {
	return param{name: name, in: "header", doc: doc, schema: `{"type":"string"}`}
}

// routes is the table of all routes.
func (a *api) routes() []route {
	aboutRequest, aboutTask, aboutWorkflow := a.requests.subject(), a.tasks.subject(), a.workflows.subject()
	sessions, rules, workflows, tasks, tokens := a.sessions.available, a.rules.available, a.workflows.available, a.tasks.available, a.toolTokens.available
	return slices.Concat(a.setups.routes(), a.accounts.routes(), a.entrances.routes(), []route{
		// Conversations
		{
			method: "POST", path: "/sessions", op: account.Use, needs: sessions, summary: "Create a conversation.",
			status: 201, result: "The session.", endpoint: directJSON[newSession, session.Session](a.sessions.create).optional(),
		},
		{
			method: "GET", path: "/sessions", op: account.Use, needs: sessions, summary: "List conversations that are not archived, most recently updated first.",
			params: list(param{name: "filter", doc: "pinned or archived: only those.", schema: `{"type":"string","enum":["pinned","archived"]}`}),
			status: 200, result: "The sessions.", endpoint: reply(a.sessions.list),
		},
		{
			method: "GET", path: "/sessions/{id}", op: account.See, summary: "Get a conversation.",
			status: 200, result: "The session.", endpoint: reply(a.sessions.one),
		},
		{
			method: "PATCH", path: "/sessions/{id}", op: account.TakePart, needs: sessions, summary: "Rename a conversation, or choose its model, effort, or instructions.",
			description: "A choice takes effect with the next request. An empty text follows the configuration again.",
			status:      200, result: "The session.", endpoint: replyTo(requiredBody, a.sessions.change),
		},
		{
			method: "DELETE", path: "/sessions/{id}", op: account.Manage, needs: sessions, summary: "Delete a conversation.",
			description: "409 session_running while a request is running, or while an accepted message has not started.",
			status:      204, result: "Deleted.", endpoint: noContent(a.sessions.delete),
		},
		{
			method: "GET", path: "/sessions/{id}/messages", op: account.See, summary: "List the messages of a conversation, oldest first, with a cursor for the event stream.",
			params: []param{
				limitParam, beforeID,
				{name: "startTime", doc: "Only messages from this time on, in Unix milliseconds.", schema: `{"type":"integer","minimum":0}`},
				{name: "endTime", doc: "Only messages until this time, in Unix milliseconds.", schema: `{"type":"integer","minimum":0}`},
				flag("html", "1 adds the field html, the rendered text."),
				flag("replay", "1 adds the output so far of running requests, as frames of the event stream, for a client that already follows the stream of all sessions."),
			},
			status: 200, result: "The messages.", endpoint: reply(a.messages.list),
		},
		{
			method: "GET", path: "/sessions/{id}/events", op: account.See, needs: sessions, summary: "List the environment events of a conversation, oldest first: what people asked, requests, tools, tasks, limits, and events for rules.",
			description: "A page may have fewer events than limit, or none. Continue while the response has next. Old events expire.",
			params:      []param{limitParam, {name: "after", doc: "The next of an earlier response.", schema: `{"type":"string"}`}},
			status:      200, result: "The events.", endpoint: reply(a.events.history),
		},
		{
			method: "GET", path: "/sessions/{id}/files/{file}", op: account.See, summary: "Download a file of a conversation.",
			description: "The last segment is the SHA-256 of the bytes, as in the url of a file.",
			status:      200, result: "The bytes. Browsers display pictures and download everything else; nothing in a file is run.",
			endpoint: direct("*/*", a.files.get),
		},
		{
			method: "POST", path: "/sessions/{id}/prompt", op: account.TakePart, needs: sessions, summary: "Send a message to a conversation.",
			params: []param{header("Idempotency-Key", "Repeating a request with the same key and body returns the first response and sends the message once.")},
			status: 200, result: "Accepted and durable.",
			others:   []response{{429, "500 messages are already queued in the conversation. Send this one again when some are answered.", reflect.TypeFor[errorBody]()}},
			endpoint: directJSON[promptBody, accepted](a.prompts.prompt),
		},
		{
			method: "POST", path: "/sessions/{id}/branch", op: account.TakePart, needs: sessions, summary: "Continue from an earlier message of a person, in other words or with another model, in a new conversation.",
			description: "The new conversation has copies of the messages before that one, works on the same files, and asks it again. The old one stays as it is.",
			params:      []param{header("Idempotency-Key", "Repeating a request with the same key and body returns the first response and branches once.")},
			status:      201, result: "The new conversation, and its first request.",
			endpoint: directJSON[branchBody, accepted](a.prompts.branch),
		},
		{
			method: "POST", path: "/sessions/{id}/cancel", op: account.TakePart, needs: sessions, summary: "Stop the running request, or accepted messages that have not started.",
			status: 200, result: "The request is stopping, nothing is running, or the request has ended.", endpoint: replyTo(optionalBody, a.cancels.cancel),
		},
		{
			method: "POST", path: "/sessions/{id}/interrupt", op: account.TakePart, needs: sessions, summary: "The same as /cancel.",
			status: 200, result: "The request is stopping, nothing is running, or the request has ended.", endpoint: replyTo(optionalBody, a.cancels.cancel),
		},
		{
			method: "GET", path: "/search", op: account.Use, needs: sessions, summary: "Search messages and titles, newest first. All words must match; the last one may be a prefix.",
			params: []param{
				{name: "q", required: true, doc: "The words.", schema: `{"type":"string","minLength":1,"maxLength":200}`},
				limitParam,
				{name: "before", doc: "The next of an earlier response.", schema: `{"type":"string"}`},
			},
			status: 200, result: "The matches.", endpoint: reply(a.searches.search),
		},

		{
			method: "GET", path: "/models", op: account.Use, needs: a.models.available, summary: "List models to choose for a conversation.",
			description: "Lists the models that the configuration names, and those of the catalog at the configured providers.",
			status:      200, result: "The models.", endpoint: reply(a.models.list),
		},

		// Events
		{
			method: "GET", path: "/events", op: account.Use, summary: "Stream events.",
			description: "Without session_id, the stream carries the text of at most 64 requests at a time, so that cursors stay small. Of further requests it has the start and the end, which contains the complete text. The stream of one session carries the text of all its requests.",
			params: []param{
				sessionParam,
				{name: "cursor", doc: "Resume after this cursor.", schema: `{"type":"string"}`},
				fromParam,
				header("Last-Event-ID", "Resume after this cursor. Takes precedence over the query."),
			},
			status: 200, result: "Server-sent events. The id of each frame is a cursor.", endpoint: direct("text/event-stream", a.streams.events),
		},
		{
			method: "POST", path: "/events", records: "publish-event", needs: sessions, summary: "Publish an environment event, once for each id. It is durable before the response.",
			status: 200, result: "Published, now or before (duplicate).", endpoint: replyTo(requiredBody, a.events.publish),
		},
		{
			method: "POST", path: "/events/{id}/replay", records: "replay-event", needs: sessions, summary: "Run a handled event through the rules again, as a new event whose metadata field replay_of names it.",
			status: 200, result: "Published.", endpoint: replyTo(optionalBody, a.events.replay),
		},
		{
			method: "POST", path: "/webhooks/{name}", class: signed, summary: "Receive a webhook, once for each delivery id.",
			description: "The configuration sets the form of the signature (GitHub, Standard Webhooks, GitLab, Stripe, or Slack). A sender without a signature is refused before its body is read. The event is durable before the response. Every Host is accepted.",
			status:      202, result: "Published, now or before (duplicate).",
			others:   []response{{200, "Slack checks the address: its challenge.", reflect.TypeFor[challenge]()}},
			endpoint: directJSON[json.RawMessage, published](a.sources.receive),
		},
		{
			method: "GET", path: "/sources", summary: "List the sources of environment events (webhooks, files, timers, programs) with their counts since the start.",
			status: 200, result: "The sources.", endpoint: reply(a.sources.list),
		},
		{
			method: "GET", path: "/rules", needs: rules, summary: "List the rules for environment events with their activity today (UTC).",
			status: 200, result: "The rules.", endpoint: reply(a.rules.list),
		},
		{
			method: "POST", path: "/rules/test", needs: rules, summary: "Report which rule would handle an event, without running the rule.",
			status: 200, result: "The rule, its action, and why other rules do not match.", endpoint: replyTo(requiredBody, a.rules.test),
		},

		// The bus
		{
			method: "GET", path: "/bus/groups", summary: "List consumer groups and their backlog.", params: []param{},
			status: 200, result: "The groups.", endpoint: reply(a.groups.list),
		},
		{
			method: "DELETE", path: "/bus/groups/{topic}/{group}", records: "drop-group", summary: "Drop an unused consumer group and its backlog.",
			status: 204, result: "Dropped.", endpoint: noContent(a.groups.drop),
		},
		{
			method: "GET", path: "/bus/{topic}", summary: "List the raw events of a topic.",
			params: []param{
				afterParam, {name: "newest", doc: "Start with the newest events: at most as many.", schema: `{"type":"integer","minimum":1,"maximum":1000}`}, limitParam,
			},
			status: 200, result: "The events.", endpoint: reply(a.topics.fetch),
		},
		{
			method: "GET", path: "/bus/{topic}/tail", summary: "Stream the raw events of a topic.",
			params: []param{afterParam, fromParam, header("Last-Event-ID", "Start after this position.")},
			status: 200, result: "Server-sent events. The id of each frame is a position.", endpoint: direct("text/event-stream", a.topics.tail),
		},

		// Requests and tasks
		{
			method: "GET", path: "/requests", op: account.Use, needs: sessions, summary: "List requests, newest first.", params: list(sessionParam),
			status: 200, result: "The requests.", endpoint: reply(a.requests.list),
		},
		{
			method: "GET", path: "/requests/{id}", op: account.See, about: aboutRequest, needs: sessions, summary: "Get a request with its messages and journal.",
			status: 200, result: "The request.", endpoint: reply(a.requests.get),
		},
		{
			method: "POST", path: "/requests/{id}/continue", op: account.TakePart, about: aboutRequest, needs: sessions, summary: "Continue a request that is paused at a limit. The limit is raised by its initial amount.",
			description: "409 not_paused if the request is not paused. If one question gets several answers, the first counts.",
			status:      200, result: "Accepted and durable.", endpoint: replyTo(optionalBody, a.requests.answer(session.Continue)),
		},
		{
			method: "POST", path: "/requests/{id}/stop", op: account.TakePart, about: aboutRequest, needs: sessions, summary: "End a request that is paused at a limit.",
			description: "409 not_paused if the request is not paused. If one question gets several answers, the first counts.",
			status:      200, result: "Accepted and durable.", endpoint: replyTo(optionalBody, a.requests.answer(session.Stop)),
		},
		{
			method: "POST", path: "/requests/{id}/answer", op: account.TakePart, about: aboutRequest, needs: sessions, summary: "Answer the question of a paused request.",
			description: "answer is once, always, or no for a call that needs an approval; continue or stop at a limit; reply, with the text in reply, for a question of the agent. pause is the number of the question, so that the answer cannot reach another one. 409 not_paused if the question is not open. If one question gets several answers, the first counts.",
			status:      200, result: "Accepted and durable.", endpoint: replyTo(requiredBody, a.requests.reply),
		},
		{
			method: "GET", path: "/sessions/{id}/approvals", op: account.See, needs: a.approvals.available, summary: "List the approvals that hold for all calls of a tool in a conversation.",
			status: 200, result: "The approvals.", endpoint: reply(a.approvals.list),
		},
		{
			method: "DELETE", path: "/sessions/{id}/approvals", op: account.TakePart, records: "revoke-approvals", needs: a.approvals.available, summary: "Revoke approvals, so that people are asked again.",
			params: []param{{name: "tool", doc: "Only those of this tool.", schema: `{"type":"string"}`}},
			status: 204, result: "Revoked.", endpoint: noContent(a.approvals.revoke),
		},
		{
			method: "GET", path: "/usage", needs: sessions, summary: "Sum up the tokens, the cost, and the latency of requests by day, model, client, channel, and rule.",
			params: []param{
				{name: "days", doc: "Number of days, ending today.", schema: `{"type":"integer","minimum":1,"maximum":366,"default":30}`},
				{name: "zone", doc: "The time zone of the days, such as Europe/Berlin. Default: the server's.", schema: `{"type":"string"}`},
			},
			status: 200, result: "The sums.", endpoint: reply(a.usage.sum),
		},
		{
			method: "GET", path: "/tasks", op: account.Use, needs: tasks, summary: "List background tasks, newest first.", params: list(sessionParam),
			status: 200, result: "The tasks.", endpoint: reply(a.tasks.list),
		},
		{
			method: "GET", path: "/tasks/{id}", op: account.See, about: aboutTask, needs: tasks, summary: "Get a background task.",
			status: 200, result: "The task.", endpoint: reply(a.tasks.get),
		},
		{
			method: "GET", path: "/tasks/{id}/output", op: account.See, about: aboutTask, needs: tasks, summary: "Read the output of a background task, also while it runs. The output of a sub-agent is its text.",
			params: []param{
				{name: "offset", doc: "The first byte. A negative number counts from the end.", schema: `{"type":"integer","default":-65536}`},
				{name: "bytes", doc: "Maximum number of bytes.", schema: `{"type":"integer","minimum":1,"maximum":262144,"default":65536}`},
			},
			status: 200, result: "Part of the output.", endpoint: reply(a.tasks.output),
		},
		{
			method: "POST", path: "/tasks/{id}/stop", op: account.TakePart, about: aboutTask, records: "stop-task", needs: tasks, summary: "Stop a background task and everything that it started. A task that has ended is not changed.",
			status: 200, result: "The task.", endpoint: reply(a.tasks.stop),
		},

		// Dead letters and workflows
		{
			method: "GET", path: "/dlq", summary: "List dead letters, newest first.", params: []param{limitParam, beforeID},
			status: 200, result: "The dead letters.", endpoint: reply(a.deadLetters.list),
		},
		{
			method: "GET", path: "/dlq/{id}", summary: "Get a dead letter.",
			status: 200, result: "The dead letter.", endpoint: reply(a.deadLetters.get),
		},
		{
			method: "POST", path: "/dlq/{id}/replay", records: "replay-dead-letter", summary: "Deliver a dead letter to its group again.",
			status: 200, result: "Delivered.", endpoint: reply(a.deadLetters.replay),
		},
		{
			method: "DELETE", path: "/dlq/{id}", records: "delete-dead-letter", summary: "Delete a dead letter permanently.",
			status: 204, result: "Deleted.", endpoint: noContent(a.deadLetters.drop),
		},
		{
			method: "GET", path: "/workflows", op: account.Use, needs: workflows, summary: "List workflows, newest first.", params: list(sessionParam, flag("waiting", "1 leaves out workflows that have ended.")),
			status: 200, result: "The workflows.", endpoint: reply(a.workflows.list),
		},
		{
			method: "GET", path: "/workflows/{id}", op: account.See, about: aboutWorkflow, needs: workflows, summary: "Get a workflow.",
			status: 200, result: "The workflow.", endpoint: reply(a.workflows.get),
		},
		{
			method: "POST", path: "/workflows/{id}/cancel", op: account.TakePart, about: aboutWorkflow, records: "cancel-workflow", needs: workflows, summary: "Cancel a workflow without waking the agent. A workflow that has ended is not changed.",
			status: 200, result: "The workflow.", endpoint: replyTo(optionalBody, a.workflows.cancel),
		},

		// People
		{
			method: "GET", path: "/pairings", needs: a.pairings.available, summary: "List the people who asked to send private messages, newest code first.",
			status: 200, result: "The people.", endpoint: reply(a.pairings.list),
		},
		{
			method: "POST", path: "/pairings/{code}/approve", records: "approve-pairing", needs: a.pairings.available, summary: "Let a person send private messages. The code may also be the user's id.",
			status: 200, result: "The person.", endpoint: replyTo(optionalBody, a.pairings.settle(true)),
		},
		{
			method: "POST", path: "/pairings/{code}/deny", records: "deny-pairing", needs: a.pairings.available, summary: "Take no private messages of a person, also of one who was approved. The code may also be the user's id.",
			status: 200, result: "The person.", endpoint: replyTo(optionalBody, a.pairings.settle(false)),
		},

		// The tool server
		{
			method: "POST", path: "/tools/tokens", records: "create-tool-token", needs: tokens, summary: "Create a token for the tool server. Only this response contains the token.",
			status: 201, result: "The token.", endpoint: replyTo(body{bytes: maxToolToken}, a.toolTokens.create),
		},
		{
			method: "GET", path: "/tools/tokens", needs: tokens, summary: "List the tokens for the tool server, by name.",
			status: 200, result: "The tokens, without their secrets.", endpoint: reply(a.toolTokens.list),
		},
		{
			method: "DELETE", path: "/tools/tokens/{name}", records: "revoke-tool-token", needs: tokens, summary: "Revoke a token for the tool server. Its running calls are cancelled.",
			status: 204, result: "Revoked.", endpoint: noContent(a.toolTokens.revoke),
		},
		{
			method: "GET", path: "/tools/calls", needs: tokens, summary: "List the calls that used these tokens, newest first.",
			params: []param{limitParam, {name: "before", doc: "Continue the list after this id.", schema: `{"type":"integer"}`}},
			status: 200, result: "The calls.", endpoint: reply(a.toolTokens.calls),
		},
		{
			method: "GET", path: "/tools/mcp", summary: "List the MCP servers, by name, with their states.",
			status: 200, result: "The servers.", endpoint: reply(a.mcpServers),
		},
		{
			method: "POST", path: "/tools/mcp/{name}/retry", records: "retry-mcp-server", summary: "Start an MCP server at once that waits for its next start, for example after a login.",
			status: 204, result: "It is started, or does not wait.", endpoint: noContent(a.retryMCP),
		},

		// Operations
		{
			method: "GET", path: "/status", summary: "Describe the running server.",
			status: 200, result: "The server.", endpoint: reply(a.operations.status),
		},
		{
			method: "GET", path: "/nodes", summary: "List the processes that use the database: the one that works, and those that wait.",
			status: 200, result: "The processes.", endpoint: reply(a.operations.listNodes),
		},
		{
			method: "GET", path: "/settings", summary: "List the effective settings and their source. Secrets are not shown.",
			status: 200, result: "The settings.", endpoint: reply(a.operations.listSettings),
		},
		{
			method: "POST", path: "/render", op: account.Use, summary: "Render Markdown as safe HTML.",
			status: 200, result: "The HTML.", endpoint: replyTo(body{bytes: 2 * maxRender}, a.renderer.reply),
		},
		{
			method: "POST", path: "/login-codes", records: "login-link", summary: "Create a login link for the page.",
			status: 201, result: "The link.", endpoint: reply(a.logins.newLink),
		},
		{
			method: "GET", path: "/login", class: loginLink, summary: "Use a login link: sets the page's cookie.",
			params: []param{{name: "code", doc: "The one-time code.", schema: `{"type":"string"}`}},
			status: 303, result: "Redirects to the page.", endpoint: direct("", a.logins.login),
		},
		{
			method: "GET", path: "/healthz", class: public, summary: "Report that the process is alive.",
			status: 200, result: "Alive.", endpoint: reply(a.operations.healthz),
		},
		{
			method: "GET", path: "/readyz", class: public, summary: "Report whether the server is ready to serve traffic, part by part.",
			status: 200, result: "Ready.", others: []response{{503, "Not ready.", reflect.TypeFor[readiness]()}},
			endpoint: directJSON[none, readiness](a.operations.readyz),
		},
		{
			method: "GET", path: "/metrics", class: needsMetricsToken, summary: "Get all metrics in the Prometheus text format.",
			status: 200, result: "The metrics.", endpoint: direct("text/plain", a.operations.metrics),
		},
		{
			method: "GET", path: "/openapi.json", op: account.Use, summary: "Get this document.",
			status: 200, result: "The document.", endpoint: directJSON[none, map[string]any](a.operations.openAPI),
		},
	})
}
