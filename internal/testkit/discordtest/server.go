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

// DefaultToken is the bot token that a server accepts unless it is told another.
const DefaultToken = "fake-bot-token"

// Options of a server; the zero value is a Discord that grants everything.
type Options struct {
	// Addr is where it listens; empty means a free port on loopback.
	Addr string
	// Memory makes it listen on pipes in memory: connect with [Server.Dial].
	Memory bool
	// Token is the bot's token; empty means [DefaultToken].
	Token string
	// Now is the clock of ids, time stamps and limits; nil means time.Now.
	Now func() time.Time
	// Heartbeat is the interval that hello asks for. Discord documents none, only
	// 45 s as an example (Gateway, "Hello Event"); zero means 41.25 s, which it
	// really says.
	Heartbeat time.Duration
	// WithoutMessageContent and WithoutMembers leave the privileged intents
	// switched off in the developer portal: asking for them closes with 4014.
	WithoutMessageContent, WithoutMembers bool
	// IdentifiesPerDay is the session start limit; zero means 1000. The next
	// identify closes with 4004, because Discord then resets the token (Gateway,
	// "Identifying").
	IdentifiesPerDay int
	// IdentifyEvery is the shortest time between two identifies, Discord's five
	// seconds (Gateway, "Session Start Limit Object"); a faster one is an invalid
	// session. Zero does not look.
	IdentifyEvery time.Duration
	// ResumeURL is where sessions are said to be resumed; empty means the gateway.
	ResumeURL string
	// NonceWindow is how long a nonce is enforced ("the past few minutes",
	// Message Resource, "Create Message"); zero means three minutes.
	NonceWindow time.Duration
	// AnswerWithin is how long an interaction waits for its first answer; zero
	// means Discord's three seconds, which a stalled machine may miss.
	AnswerWithin time.Duration
	// Limits overrides the limits of routes, by their name ("POST
	// /channels/{channel}/messages"); a Limit without requests has none.
	Limits map[string]Limit
	// GlobalPerSecond is the limit over all routes (Rate Limits, "Global Rate
	// Limit"); zero means 50, less than zero none.
	GlobalPerSecond int
	// AllowUnsafeMentions does not require that messages say whom they may ping.
	AllowUnsafeMentions bool
}

// Server is a running fake Discord. Its methods may be called from everywhere;
// ids that do not exist panic in scripting, which is the test's mistake.
type Server struct {
	// URL is its root. APIURL ends in /api/v10, GatewayURL is what
	// /gateway/bot answers, CDNURL is where attachments lie.
	URL, APIURL, GatewayURL, CDNURL string

	o        Options
	listener net.Listener
	http     http.Server
	running  sync.WaitGroup
	ctx      context.Context
	stop     context.CancelFunc
	// term is what the addresses of files are signed with.
	term atomic.Int64

	mu         sync.Mutex // guards what follows
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

// Start starts a server; end it with Close.
func Start(o Options) (*Server, error) {
	o.Token = cmp.Or(o.Token, DefaultToken)
	o.Heartbeat = cmp.Or(o.Heartbeat, 41250*time.Millisecond)
	o.IdentifiesPerDay = cmp.Or(o.IdentifiesPerDay, 1000)
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
	s := &Server{
		URL: "http://" + host, APIURL: "http://" + host + apiPrefix, GatewayURL: "ws://" + host + gatewayPath, CDNURL: "http://" + host + "/cdn",
		o: o, listener: listener, changed: make(chan struct{}), files: make(map[string]storedFile),
	}
	s.o.ResumeURL = cmp.Or(o.ResumeURL, s.GatewayURL)
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.world = newWorld()
	s.gateway.sessions = make(map[string]*session)
	s.limits.buckets = make(map[string]*bucket)
	s.world.bot = s.user("lilac", true)
	s.world.applicationID = s.world.bot.ID
	s.http.Handler = s.routes()
	s.running.Go(func() { _ = s.http.Serve(listener) }) // always ends with the error of Close
	return s, nil
}

// New starts a server that ends with the test, and fails it for what broke a
// rule.
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

// Close ends the server and cuts every connection. It may be called twice.
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

// Dial connects to the server, whatever address is asked for: for the dialers
// of clients when [Options.Memory] is set.
func (s *Server) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	if p, ok := s.listener.(*pipes); ok {
		return p.dial(ctx)
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", s.listener.Addr().String())
}

// notifyLocked wakes those who wait for something to happen.
func (s *Server) notifyLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// violateLocked records that a rule was broken.
func (s *Server) violateLocked(format string, args ...any) {
	if len(s.violations) < maxRecorded {
		s.violations = append(s.violations, fmt.Sprintf(format, args...))
	}
}

// maxRecorded bounds each kind of record; no test looks further back.
const maxRecorded = 100_000
