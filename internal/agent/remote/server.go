package remote

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"lilac/internal/agent/builtin"
	"lilac/internal/agent/tool"
	"lilac/internal/foundation/fault"
)

const (
	// maxCommands bounds the commands that run here at the same time.
	maxCommands = 1024
	// maxStopped bounds the ids of stopped commands that are remembered. Their orders, if they
	// are still on the way, arrive within seconds.
	maxStopped = 256
	// leaveTime is the time in which the active node has to read that this one leaves.
	leaveTime = time.Second
)

// ServerOptions configure a [Server]. Run, Access, and Key are required.
type ServerOptions struct {
	// Run runs a command on this machine, as [builtin.Shell.Run] does.
	Run func(ctx context.Context, call tool.Call, l builtin.Line) (builtin.Ended, error)
	// Ready returns why no command can run here, or nil.
	Ready func() error
	// Access returns the access of a command that has a token of the active node's tool server.
	Access func(token string) builtin.Access
	// Key is the key of the nodes.
	Key string
	// Silence replaces [DefaultSilence].
	Silence time.Duration
	Logger  *slog.Logger
}

// Server runs the commands of the active node on this machine. The caller must call Close.
type Server struct {
	opt ServerOptions
	mux *http.ServeMux

	mu       sync.Mutex
	closed   bool
	commands map[string]*command // by the id of the order
	stopped  []string            // ids of orders that must not begin anymore, oldest first
	work     sync.WaitGroup
}

type command struct {
	conn   net.Conn
	cancel context.CancelCauseFunc
	ended  chan struct{}
}

var (
	errStopped = &fault.Error{Kind: fault.Cancelled, Message: "The command was stopped."}
	errSilent  = &fault.Error{Kind: fault.Cancelled, Code: "caller_lost", Message: "The active node was lost, so that the command was stopped."}
	errLeaving = &fault.Error{Kind: fault.Cancelled, Code: "node_leaves", Message: "The node that ran the command stops running commands."}
)

// NewServer returns a server that runs commands.
func NewServer(opt ServerOptions) *Server {
	opt.Logger = cmp.Or(opt.Logger, slog.New(slog.DiscardHandler))
	opt.Silence = cmp.Or(opt.Silence, DefaultSilence)
	s := &Server{opt: opt, commands: map[string]*command{}, mux: http.NewServeMux()}
	s.mux.HandleFunc("POST "+Path, s.accept)
	s.mux.HandleFunc("POST "+Path+"/{id}/stop", s.stop)
	return s
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !HasKey(r, s.opt.Key) {
		http.Error(w, "Only nodes with the same LILAC_TOKEN may use this.", http.StatusUnauthorized)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// Running returns the number of commands that run here.
func (s *Server) Running() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.commands)
}

// Close refuses new commands, ends those that run, and waits for them. It may be called twice.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	running := slices.Collect(maps.Values(s.commands))
	s.mu.Unlock()
	for _, c := range running {
		c.cancel(errLeaving)
	}
	// An active node that hangs reads nothing, and this node may be about to take its place.
	late := time.AfterFunc(leaveTime, func() {
		for _, c := range running {
			_ = c.conn.Close()
		}
	})
	defer late.Stop()
	s.work.Wait()
}

// stop ends a command whose connection was lost, and answers when it has ended. An unknown
// command has ended already, or does not begin anymore.
func (s *Server) stop(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	s.mu.Lock()
	c := s.commands[id]
	s.stopped = append(s.stopped[max(0, len(s.stopped)+1-maxStopped):], id)
	s.mu.Unlock()
	if c != nil {
		c.cancel(errStopped)
		select {
		case <-c.ended:
		case <-r.Context().Done():
			return
		}
	}
	w.WriteHeader(http.StatusNoContent)
}

// accept turns the connection of a request into that of a command.
func (s *Server) accept(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Upgrade") != protocol {
		http.Error(w, "The header Upgrade must be "+protocol+".", http.StatusUpgradeRequired)
		return
	}
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		s.opt.Logger.Error("cannot take over the connection of a command", "error", err)
		return
	}
	defer conn.Close()
	if err := s.serve(conn, buffered.Reader); err != nil {
		s.opt.Logger.Warn("a command of the active node did not end as usual", "error", err)
	}
}

func (s *Server) serve(conn net.Conn, in *bufio.Reader) error {
	lines := newStream(conn, in, s.opt.Silence)
	if _, err := fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", protocol); err != nil {
		return fmt.Errorf("accept a command: %w", err)
	}
	var o order
	if err := lines.receive(&o); err != nil {
		return fmt.Errorf("read an order: %w", err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	end, err := s.begin(o, &command{conn, cancel, make(chan struct{})})
	if err != nil {
		wire := fault.ToWire(err)
		return lines.send(frame{Error: &wire})
	}
	defer end()
	if err := lines.send(frame{Started: true}); err != nil {
		return fmt.Errorf("answer an order: %w", err)
	}
	var sides sync.WaitGroup
	sides.Go(func() { lines.keepSaying(frame{}, ctx.Done()) })
	sides.Go(func() { follow(lines, cancel) })
	last := s.run(ctx, o, lines)
	err = lines.send(last)
	cancel(nil)
	_ = conn.SetReadDeadline(time.Now()) // ends follow
	sides.Wait()
	return err
}

// begin counts a command, or refuses it.
func (s *Server) begin(o order, c *command) (end func(), err error) {
	if s.opt.Ready != nil {
		err = s.opt.Ready()
	}
	if err := errors.Join(err, see(o.Marks)); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, fault.Wrap(fault.Unavailable, errLeaving, "The node stops running commands.")
	case slices.Contains(s.stopped, o.ID):
		return nil, errStopped
	case len(s.commands) >= maxCommands || s.commands[o.ID] != nil:
		return nil, fault.New(fault.Unavailable, "The node runs too many commands.")
	}
	s.commands[o.ID] = c
	s.work.Add(1)
	return func() {
		s.mu.Lock()
		delete(s.commands, o.ID)
		s.mu.Unlock()
		close(c.ended)
		s.work.Done()
	}, nil
}

// follow cancels the command if the active node asks for that, or is lost.
func follow(lines *stream, cancel context.CancelCauseFunc) {
	for {
		var said signal
		if err := lines.receive(&said); err != nil {
			cancel(errSilent)
			_ = lines.conn.Close() // the rest of the output has no reader
			return
		}
		if said.Cancel {
			cancel(errStopped)
		}
	}
}

// run runs the command and returns the last frame.
func (s *Server) run(ctx context.Context, o order, lines *stream) frame {
	call := tool.Call{ID: o.CallID, RequestID: o.RequestID, SessionID: o.SessionID, Client: o.Client, Workspace: o.Workspace}
	ended, err := s.opt.Run(ctx, call, builtin.Line{
		Command: o.Command, Dir: o.Dir, Timeout: time.Duration(o.TimeoutMS) * time.Millisecond,
		Output: output{lines}, Access: s.opt.Access(o.Token),
	})
	if err != nil {
		wire := fault.ToWire(err)
		return frame{Error: &wire, Ended: &ended}
	}
	return frame{Ended: &ended}
}

// output sends the output of a command.
type output struct{ lines *stream }

// Write implements [io.Writer].
func (o output) Write(p []byte) (n int, err error) {
	for len(p) > n {
		part := p[n:min(n+maxOutput, len(p))]
		if err := o.lines.send(frame{Output: part}); err != nil {
			return n, err
		}
		n += len(part)
	}
	return n, nil
}
