package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"lilac/internal/agent/mcpclient"

	"lilac/internal/core/account"
	"lilac/internal/core/environment"
	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/telemetry/health"
	"lilac/internal/telemetry/metrics"
)

// Tables are the parts of the store behind the routes for conversations. Each
// returns a fault.NotFound error for an unknown id.
type Tables struct {
	Inbox    environment.Inbox
	Sessions SessionTable
	// Questions and Branches may be nil.
	Questions QuestionTable
	Branches  BranchTable
	Accepted  AcceptedTable
	History   HistoryTable
	Requests  RequestTable
	Files     FileTable
	// Seen lists what a person may see. It may be nil on a server without accounts.
	Seen SeenTable
}

// Options configure the handler.
type Options struct {
	DB  *db.DB
	Bus bus.Bus
	// Tables is nil on a server without sessions: their routes then answer 503.
	Tables *Tables
	// Blobs is nil on a server that takes no attachments.
	Blobs Blobs
	// FileBytes and TotalBytes limit one attachment of a prompt and all of them;
	// zero means maxFile and maxFiles.
	FileBytes, TotalBytes int64

	// Token is the operator's token. If it is empty, every route that needs it
	// refuses.
	Token string
	// AllowedHosts are host names, with or without a port, that the server accepts
	// in addition to loopback. Hosts takes precedence and may change at run time.
	AllowedHosts []string
	Hosts        *Hosts
	// TrustedProxies are the addresses whose Forwarded and X-Forwarded-* headers
	// are honoured.
	TrustedProxies []netip.Prefix
	// Addr is the address that the server listens on, for login links.
	Addr string
	// Logins issues login links; nil creates one.
	Logins *Logins
	// Page serves every path that is not a route.
	Page http.Handler

	// Nodes lists the processes that use the database; nil means that there is only this one.
	Nodes func(ctx context.Context) ([]db.Node, error)
	// FromNode reports whether a waiting node passes a request on; nil without other nodes.
	FromNode func(r *http.Request) bool
	// Platforms are the clients whose conversations can begin only on their
	// platform, never through this API.
	Platforms []string
	// Workflows, Rules, Operators, Sources and Tasks are nil on a server without
	// them.
	Workflows Workflows
	Rules     *Rules
	Operators Operators
	// MCPServer serves /mcp and checks its own tokens; nil means that there is no such path.
	MCPServer http.Handler
	// OpenAI serves the paths below /v1/ and checks its own tokens; nil means that there are
	// no such paths.
	OpenAI http.Handler
	// Origins lists the sites whose pages may use /mcp or a path below /v1/, or "*"; nil means none.
	Origins func(path string) []string
	// MCP lists the MCP servers; nil means that there are none.
	MCP func() []mcpclient.Status
	// RetryMCP starts an MCP server at once that waits; nil means that there are none.
	RetryMCP func(name string) error
	Sources  *Sources
	Tasks    Tasks

	// Accounts is nil on a server without accounts.
	Accounts *account.Service
	// OIDC signs in people with a provider of the team; nil means that there is none.
	OIDC OIDC
	// PublicURL is the address under which people reach the server, for links; "" means that of
	// the request that creates the link.
	PublicURL string

	// Pairings is nil on a server without a platform with private messages.
	Pairings Pairings
	// Approvals is nil on a server without a runner.
	Approvals Approvals

	// Models is nil on a server without models to choose from.
	Models Models
	// Setup is nil on a server that cannot change its configuration.
	Setup Setup

	// Health reports the state of the parts of the program; nil means ready.
	Health  func() health.Report
	Version string
	// Metrics is the registry that /metrics writes; nil creates one. MetricsToken,
	// if set, opens that route and no other.
	Metrics      *metrics.Registry
	MetricsToken string
	// Trace starts a span for a request and returns the function that ends it; nil
	// disables tracing.
	Trace func(ctx context.Context, route, traceParent string) (context.Context, func(status int))
	// Settings returns the effective settings; nil means none.
	Settings func() []Setting
	Logger   *slog.Logger
	Now      func() time.Time
	// Heartbeat is the interval of keep-alive comments on a silent event stream;
	// default 15 s.
	Heartbeat time.Duration
	// Stopping ends the event streams, which otherwise never end; nil means never.
	Stopping context.Context
	// WriteTimeout disconnects a client that does not read its event stream;
	// default 30 s.
	WriteTimeout time.Duration

	// unchecked turns off the checks of host, origin and token, so that a test can
	// show that those checks are what refuses a request.
	unchecked bool
	// refuseNewest refuses the newest webhook, and not the slowest, when too many bodies are
	// read, so that a test can show the difference.
	refuseNewest bool
}

func (o *Options) setDefaults() {
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
	if o.Tables == nil {
		o.Tables = &Tables{}
	}
}
