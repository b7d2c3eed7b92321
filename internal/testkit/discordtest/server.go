package discordtest

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// DefaultToken is the bot token that a server accepts if [Options.Token] is empty.
const DefaultToken = "fake-bot-token"

// Options configures a server. The zero value is a Discord that grants everything.
type Options struct {
	// Addr is the address to listen on. Empty means a free loopback port.
	Addr string
	// Memory makes the server listen on in-memory pipes. Clients then connect with
	// [Server.Dial].
	Memory bool
	// Token is the bot token. Empty means [DefaultToken].
	Token string
	// Now is the clock for IDs, timestamps and rate limits. Nil means time.Now.
	Now func() time.Time
	// Heartbeat is the heartbeat interval that Hello requests. Discord documents only an
	// example, 45 s (Gateway, "Hello Event"). Zero means 41.25 s, the value that Discord
	// really sends.
	Heartbeat time.Duration
	// WithoutMessageContent and WithoutMembers disable the privileged intents, as in the
	// developer portal. A client that requests a disabled intent is closed with code
	// 4014.
	WithoutMessageContent, WithoutMembers bool
	// IdentifiesPerDay is the session start limit; zero means 1000. An identify above the
	// limit is closed with code 4004, because Discord then resets the token (Gateway,
	// "Identifying").
	IdentifiesPerDay int
	// IdentifyEvery is the minimum time between two identifies; Discord requires five
	// seconds (Gateway, "Session Start Limit Object"). The server answers an earlier
	// identify with Invalid Session. Zero disables the check.
	IdentifyEvery time.Duration
	// GuildsPerShard limits the guilds of one connection; an identify with more is
	// closed with code 4011. Zero means 2,500 (Gateway, "Sharding").
	GuildsPerShard int
	// ResumeURL is the resume_gateway_url in Ready. Empty means GatewayURL.
	ResumeURL string
	// ReadyFields replace fields of Ready, for servers that send others.
	ReadyFields map[string]any
	// NonceWindow is how long the server enforces a nonce. Discord documents "the past
	// few minutes" (Message Resource, "Create Message"). Zero means three minutes.
	NonceWindow time.Duration
	// AnswerWithin is the deadline for the first response to an interaction. Zero means
	// three seconds, as on Discord. Raise it where a stalled machine could miss that
	// deadline.
	AnswerWithin time.Duration
	// Limits overrides the rate limits of routes. The keys are route names, for example
	// "POST /channels/{channel}/messages". A Limit with zero requests disables the limit.
	Limits map[string]Limit
	// GlobalPerSecond is the limit across all routes, in requests per second (Rate
	// Limits, "Global Rate Limit"). Zero means 50; a negative value disables the limit.
	GlobalPerSecond int
	// AllowUnsafeMentions permits messages that do not set allowed_mentions.
	AllowUnsafeMentions bool
}

// Server is a running fake Discord. Its methods are those of its parts. They are safe
// for concurrent use. Scripting methods panic if an ID does not exist, because that is a
// mistake in the test.
type Server struct {
	*core
	World
	Script
	Observer
	Faults
}

// World creates and changes accounts, guilds, channels, and permissions.
type World struct{ *core }

// Script does what users do: it writes, edits, reacts, and presses buttons.
type Script struct{ *core }

// Observer returns what is there, and waits for it.
type Observer struct{ *core }

// Faults makes calls fail and connections drop.
type Faults struct{ *core }

// core is the state of a server, with the gateway and the REST API.
type core struct {
	// URL is the root address. APIURL ends in /api/v10. GatewayURL is the address that
	// /gateway/bot returns. Attachments are served below CDNURL.
	URL, APIURL, GatewayURL, CDNURL string

	o        Options
	listener net.Listener
	http     http.Server
	running  sync.WaitGroup
	ctx      context.Context
	stop     context.CancelFunc
	// term is part of the key that signs file URLs. Incrementing it invalidates all
	// signatures.
	term atomic.Int64

	mu         sync.Mutex // guards the fields below
	closed     bool
	changed    chan struct{}
	world      world
	gateway    gateway
	limits     limiter
	faults     []*plannedFault
	hooks      []func(Carried)
	violations []string
	requests   []Request
	files      map[string]storedFile
	lastID     int64
}

// Start starts a server. The caller must call Close.
func Start(o Options) (*Server, error) {
	o.Token = cmp.Or(o.Token, DefaultToken)
	o.Heartbeat = cmp.Or(o.Heartbeat, 41250*time.Millisecond)
	o.IdentifiesPerDay = cmp.Or(o.IdentifiesPerDay, 1000)
	o.GuildsPerShard = cmp.Or(o.GuildsPerShard, 2500)
	o.NonceWindow = cmp.Or(o.NonceWindow, 3*time.Minute)
	o.AnswerWithin = cmp.Or(o.AnswerWithin, answerWithin)
	o.GlobalPerSecond = cmp.Or(o.GlobalPerSecond, 50)
	if o.Now == nil {
		o.Now = time.Now
	}
	var listener net.Listener
	if o.Memory {
		listener = newPipes()
	} else {
		var err error
		if listener, err = net.Listen("tcp", cmp.Or(o.Addr, "127.0.0.1:0")); err != nil {
			return nil, fmt.Errorf("listen for the fake Discord: %w", err)
		}
	}
	host := listener.Addr().String()
	s := &core{
		URL: "http://" + host, APIURL: "http://" + host + apiPrefix, GatewayURL: "ws://" + host + gatewayPath, CDNURL: "http://" + host + "/cdn",
		o: o, listener: listener, changed: make(chan struct{}), files: make(map[string]storedFile),
	}
	s.o.ResumeURL = cmp.Or(o.ResumeURL, s.GatewayURL)
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.world = newWorld(s.o.Now)
	s.gateway.sessions = make(map[string]*session)
	s.limits.buckets = make(map[string]*bucket)
	s.world.bot = s.user("lilac", true)
	s.world.applicationID = s.world.bot.ID
	s.http.Handler = s.routes()
	s.running.Go(func() { _ = s.http.Serve(listener) }) // Serve always returns the error that Close causes
	return &Server{s, World{s}, Script{s}, Observer{s}, Faults{s}}, nil
}

// New starts a server, closes it when the test ends, and fails the test if there were
// violations.
func New(t testing.TB, o Options) *Server {
	t.Helper()
	s, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close the fake Discord: %v", err)
		}
		for _, v := range s.Violations() {
			t.Errorf("Discord's rules: %s", v)
		}
	})
	return s
}

// Close stops the server and drops all connections. It is safe to call twice.
func (s *Server) Close() error {
	s.stop()
	s.mu.Lock()
	s.closed = true
	for conn := range s.gateway.conns {
		conn.cut()
	}
	s.mu.Unlock()
	err := s.http.Close()
	s.running.Wait()
	return err
}

// Dial connects to the server and ignores the requested address. Use it as the dialer of
// clients when [Options.Memory] is set.
func (s *Server) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	if p, ok := s.listener.(*pipes); ok {
		return p.dial(ctx)
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", s.listener.Addr().String())
}

// notifyLocked wakes all goroutines that wait for a change of the server's state.
func (s *core) notifyLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// violateLocked records a violation.
func (s *core) violateLocked(format string, args ...any) {
	if len(s.violations) < maxRecorded {
		s.violations = append(s.violations, fmt.Sprintf(format, args...))
	}
}

// maxRecorded bounds the recorded requests and the recorded violations. No test needs
// more.
const maxRecorded = 100_000
