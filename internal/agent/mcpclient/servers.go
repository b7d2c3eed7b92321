package mcpclient

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"lilac/internal/agent/sandbox"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/order"
)

// Options configure [Servers].
type Options struct {
	// Sandbox runs stdio servers under Policy, which is that of the agent's commands.
	Sandbox sandbox.Sandbox
	Policy  sandbox.Policy
	// TmpBytes bounds their /tmp, in bytes.
	TmpBytes int64
	// Home returns the directory that is the home of a stdio server.
	Home func(name string) (string, error)
	// Dir is a private directory for sockets, and for the working directories of servers
	// that may not write in the workspace.
	Dir string
	// Logins keeps the logins of servers with oauth; nil means that there are none.
	Logins Logins
	// Publish publishes what a server has announced; nil drops it.
	Publish func(ctx context.Context, n Notice) error
	// Emit publishes an event of a server that is a source of events; nil drops it.
	Emit    func(ctx context.Context, server string, event json.RawMessage) error
	Version string
	Logger  *slog.Logger

	// limits are smaller in tests.
	limits limits
}

// limits bound what one server may send.
type limits struct {
	// message bounds one message, in bytes, and minute all messages of a minute.
	message int
	minute  int64
	// pause is the least time between two lists after changes.
	pause time.Duration
	// session is the least time between two sessions with a server that forgets them.
	session time.Duration
	// backoff returns the pause before a start.
	backoff func(failures int, lived time.Duration) (int, time.Duration)
}

// defaultLimits allow pictures of a few megabytes, and long lists of tools.
var defaultLimits = limits{message: 8 << 20, minute: 128 << 20, pause: time.Second, session: time.Second, backoff: Backoff}

// Servers supervises the configured servers.
type Servers struct {
	o Options

	mu      sync.Mutex
	servers map[string]*server
	// number counts the servers that were created, for the names of their directories.
	number int
	// ctx is that of Run, or nil while Run does not run.
	ctx  context.Context
	work sync.WaitGroup
}

// New returns supervised servers. It starts nothing; see [Servers.Set] and [Servers.Run].
func New(o Options) *Servers {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.limits.message = cmp.Or(o.limits.message, defaultLimits.message)
	o.limits.minute = cmp.Or(o.limits.minute, defaultLimits.minute)
	o.limits.pause = cmp.Or(o.limits.pause, defaultLimits.pause)
	o.limits.session = cmp.Or(o.limits.session, defaultLimits.session)
	if o.limits.backoff == nil {
		o.limits.backoff = defaultLimits.backoff
	}
	return &Servers{o: o, servers: map[string]*server{}}
}

// Set replaces the configuration. Servers whose entry did not change keep running.
func (s *Servers) Set(entries map[string]ServerConfig) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := map[string]*server{}
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		name := Name(key)
		if old, ok := s.servers[name]; ok && old.key == key && reflect.DeepEqual(old.config, entries[key]) {
			next[name] = old
			continue
		}
		s.number++
		next[name] = newServer(&s.o, s.number, name, key, entries[key])
	}
	old := s.servers
	s.servers = next
	for name, one := range old {
		if next[name] != one {
			one.stop()
		}
	}
	for name, one := range next {
		if old[name] != one {
			s.startLocked(one)
		}
	}
}

func (s *Servers) startLocked(one *server) {
	if s.ctx == nil || one.config.Disabled {
		return
	}
	ctx, cancel := context.WithCancel(s.ctx)
	one.cancel = cancel
	s.work.Go(func() { one.run(ctx) })
}

// Run runs the servers until ctx ends, and waits for them. It may be called once.
func (s *Servers) Run(ctx context.Context) error {
	s.mu.Lock()
	s.ctx = ctx
	for _, one := range s.servers {
		s.startLocked(one)
	}
	s.mu.Unlock()
	<-ctx.Done()
	s.mu.Lock() // so that Set starts nothing more
	s.ctx = nil
	s.mu.Unlock()
	s.work.Wait()
	return nil
}

// Status lists the servers, by name.
func (s *Servers) Status() []Status {
	out := []Status{}
	for _, one := range s.sorted() {
		out = append(out, one.status())
	}
	return out
}

func (s *Servers) sorted() []*server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return order.Sorted(maps.Values(s.servers), func(a, b *server) int { return cmp.Compare(a.name, b.name) })
}

// Names lists the names of the servers that are not disabled.
func (s *Servers) Names() (out []string) {
	for _, one := range s.sorted() {
		if !one.config.Disabled {
			out = append(out, one.name)
		}
	}
	return out
}

// Settle waits until no server is starting for the first time, or ctx ends.
func (s *Servers) Settle(ctx context.Context) {
	for _, one := range s.sorted() {
		if one.config.Disabled {
			continue
		}
		select {
		case <-one.settled:
		case <-ctx.Done():
			return
		}
	}
}

// find returns a server by name.
func (s *Servers) find(name string) (*server, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one, ok := s.servers[name]; ok {
		return one, nil
	}
	return nil, fault.New(fault.NotFound, "There is no MCP server %q.%s", name, fault.DidYouMean(name, slices.Collect(maps.Keys(s.servers))))
}

// Retry starts a server at once, by its name or its key in the configuration, if it waits
// for its next start.
func (s *Servers) Retry(name string) error {
	one, err := s.find(Name(name))
	if err != nil {
		return err
	}
	one.mu.Lock()
	defer one.mu.Unlock()
	if one.again != nil {
		one.again()
	}
	return nil
}

// Absent says why a server has not offered anything yet. It returns nil if it has, or is not known.
func (s *Servers) Absent(name string) error {
	one, err := s.find(name)
	if err != nil {
		return nil
	}
	if _, ok := one.offer(); ok {
		return nil
	}
	return one.away()
}

// Offers lists what the servers offer, by name of the server. What a server offered before it ended
// stays listed while it is restarted.
func (s *Servers) Offers() (out []Offer) {
	for _, one := range s.sorted() {
		if offer, ok := one.offer(); ok {
			out = append(out, offer)
		}
	}
	return out
}
