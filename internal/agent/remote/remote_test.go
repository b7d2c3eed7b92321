package remote_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"lilac/internal/agent/builtin"
	"lilac/internal/agent/remote"
	"lilac/internal/agent/sandbox"
	"lilac/internal/agent/tool"
	"lilac/internal/foundation/fault"
	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/faultproxy"
)

func TestMain(m *testing.M) {
	effort.SideBySide(8)
	goleak.VerifyTestMain(m)
}

const (
	key = "the key of the nodes"
	// silence is longer than a busy machine delays a signal; brief is for the tests that wait for its end.
	silence = 8 * time.Second
	brief   = 2 * time.Second
)

// machine is a node with commands that the test controls.
type machine struct {
	server *remote.Server
	http   *httptest.Server
	begun  chan tool.Call

	mu    sync.Mutex
	ended map[string]error // by the id of the call, why it ended
	token string
}

func newMachine(t *testing.T, run func(ctx context.Context, l builtin.Line) (builtin.Ended, error), change ...func(*remote.ServerOptions)) *machine {
	t.Helper()
	m := &machine{begun: make(chan tool.Call, 10), ended: map[string]error{}}
	opt := remote.ServerOptions{
		Key: key, Silence: silence,
		Access: func(token string) builtin.Access { m.mu.Lock(); defer m.mu.Unlock(); m.token = token; return nil },
		Run: func(ctx context.Context, call tool.Call, l builtin.Line) (builtin.Ended, error) {
			m.begun <- call
			ended, err := run(ctx, l)
			m.mu.Lock()
			defer m.mu.Unlock()
			m.ended[call.ID] = errors.Join(err, context.Cause(ctx))
			return ended, err
		},
	}
	for _, f := range change {
		f(&opt)
	}
	m.server = remote.NewServer(opt)
	m.http = httptest.NewServer(m.server)
	t.Cleanup(func() {
		m.server.Close()
		m.http.Close()
	})
	return m
}

func (m *machine) whyEnded(id string) (err error, ended bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	err, ended = m.ended[id]
	return err, ended
}

func untilCancelled(ctx context.Context, l builtin.Line) (builtin.Ended, error) {
	_, _ = l.Output.Write([]byte("begun\n"))
	<-ctx.Done()
	return builtin.Ended{Result: sandbox.Result{ExitCode: 137}}, context.Cause(ctx)
}

// nodes returns the active node's view of another node at a URL.
func nodes(t *testing.T, url string, change ...func(*remote.Options)) *remote.Nodes {
	t.Helper()
	dir := t.TempDir()
	marks, err := remote.Leave(dir)
	if err != nil {
		t.Fatal(err)
	}
	opt := remote.Options{
		Here: remote.Node{Name: "here", CPUs: 1}, Key: key, Silence: silence, Marks: marks,
		List: func(context.Context) ([]remote.Node, error) {
			return []remote.Node{{Name: "there", Host: "there", URL: url, CPUs: 1000}}, nil
		},
		Token: func(tool.Call) (string, func(), error) { return "the token", func() {}, nil },
	}
	for _, f := range change {
		f(&opt)
	}
	return remote.New(opt)
}

var errHere = errors.New("it ran on this node")

// run makes this node busy, so that the command runs on the other one.
func run(ctx context.Context, n *remote.Nodes, id string, l builtin.Line) (builtin.Ended, error) {
	var ended builtin.Ended
	var err error
	_, _ = n.Run(ctx, tool.Call{SessionID: "busy"}, builtin.Line{}, func() (builtin.Ended, error) {
		ended, err = n.Run(ctx, tool.Call{ID: id, RequestID: "r", SessionID: "s", Client: "web", Workspace: "/w"}, l, func() (builtin.Ended, error) {
			return builtin.Ended{}, errHere
		})
		return builtin.Ended{}, nil
	})
	return ended, err
}

// heard is an output that says when something arrives.
type heard struct {
	bytes.Buffer
	something chan struct{}
}

func newHeard() *heard { return &heard{something: make(chan struct{}, 100)} }

// Write implements [io.Writer].
func (h *heard) Write(p []byte) (int, error) {
	h.something <- struct{}{}
	return h.Buffer.Write(p)
}

// network passes connections on until it is cut. After that, nothing arrives, not even the end of
// a connection.
type network struct {
	addr string
	cut  chan struct{}
}

func startNetwork(t *testing.T, to string) *network {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &network{l.Addr().String(), make(chan struct{})}
	var work sync.WaitGroup
	over, end := context.WithCancel(context.Background())
	t.Cleanup(func() {
		end()
		_ = l.Close()
		work.Wait()
	})
	work.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			onward, err := net.Dial("tcp", to)
			if err != nil {
				_ = from.Close()
				continue
			}
			work.Go(func() { n.pass(over, onward, from) })
			work.Go(func() { n.pass(over, from, onward) })
		}
	})
	return n
}

func (n *network) pass(over context.Context, to, from net.Conn) {
	defer to.Close()
	defer context.AfterFunc(over, func() { _ = from.Close() })()
	buffer := make([]byte, 64<<10)
	for {
		got, err := from.Read(buffer)
		select {
		case <-n.cut:
			<-over.Done()
			return
		default:
		}
		if err != nil {
			return
		}
		if _, err := to.Write(buffer[:got]); err != nil {
			return
		}
	}
}

func TestACommandRunsOnAnotherNode(t *testing.T) {
	m := newMachine(t, func(_ context.Context, l builtin.Line) (builtin.Ended, error) {
		for range 3 {
			if _, err := l.Output.Write([]byte(strings.Repeat("x", 100_000))); err != nil {
				return builtin.Ended{}, err
			}
		}
		fmt.Fprintf(l.Output, "\n%s in %s for %s", l.Command, l.Dir, l.Timeout)
		return builtin.Ended{Result: sandbox.Result{ExitCode: 3, Exceeded: sandbox.ExceededDisk}, Denied: []string{"a.test:443"}}, nil
	})
	var out bytes.Buffer
	ended, err := run(t.Context(), nodes(t, m.http.URL), "1", builtin.Line{Command: "make", Dir: "src", Timeout: time.Minute, Output: &out})
	if err != nil || ended.ExitCode != 3 || ended.Exceeded != sandbox.ExceededDisk || len(ended.Denied) != 1 || ended.Lost {
		t.Errorf("%+v, %v", ended, err)
	}
	if got := out.String(); len(got) < 300_000 || !strings.HasSuffix(got, "\nmake in src for 1m0s") {
		t.Errorf("%d bytes of output, which end with %q", len(got), got[max(0, len(got)-50):])
	}
	call := <-m.begun
	if call.RequestID != "r" || call.SessionID != "s" || call.Client != "web" || call.Workspace != "/w" || m.token != "the token" {
		t.Errorf("the node gets %+v and the token %q", call, m.token)
	}
}

func TestACommandThatIsCancelledHasEndedWhenRunReturns(t *testing.T) {
	m := newMachine(t, untilCancelled)
	ctx, cancel := context.WithCancelCause(t.Context())
	wanted := errors.New("stop")
	out := newHeard()
	go func() {
		<-out.something
		cancel(wanted)
	}()
	_, err := run(ctx, nodes(t, m.http.URL), "1", builtin.Line{Output: out})
	if !errors.Is(err, wanted) || out.String() != "begun\n" {
		t.Errorf("%v, output %q", err, out.String())
	}
	if _, ended := m.whyEnded("1"); !ended {
		t.Error("the command still runs")
	}
}

// A quiet command runs on: both sides say that they are there.
func TestACommandMayBeQuiet(t *testing.T) {
	effort.SkipSlow(t)
	t.Parallel()
	m := newMachine(t, func(ctx context.Context, _ builtin.Line) (builtin.Ended, error) {
		select {
		case <-ctx.Done():
			return builtin.Ended{}, context.Cause(ctx)
		case <-time.After(silence + silence/4):
			return builtin.Ended{}, nil
		}
	})
	if ended, err := run(t.Context(), nodes(t, m.http.URL), "1", builtin.Line{}); err != nil || ended.Lost {
		t.Errorf("%+v, %v", ended, err)
	}
}

// The connection is cut without a word: the node ends the command by itself, before the caller
// goes on. The caller does not run it again. In the control, the node waits longer, and the
// command still runs when the caller goes on.
func TestACutConnectionEndsTheCommand(t *testing.T) {
	effort.SkipSlow(t)
	t.Parallel()
	for name, patient := range map[string]bool{"as it is": false, "control: the node waits for ever": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t, untilCancelled, func(o *remote.ServerOptions) {
				if o.Silence = brief; patient {
					o.Silence = time.Hour
				}
			})
			network := startNetwork(t, m.http.Listener.Addr().String())
			out := newHeard()
			go func() {
				<-out.something
				close(network.cut)
			}()
			n := nodes(t, "http://"+network.addr, func(o *remote.Options) { o.Silence = brief })
			ended, err := run(t.Context(), n, "1", builtin.Line{Output: out})
			if err != nil || !ended.Lost {
				t.Errorf("%+v, %v", ended, err)
			}
			if _, stopped := m.whyEnded("1"); stopped == patient {
				t.Errorf("when the caller goes on, the command has ended: %v", stopped)
			}
			if out.String() != "begun\n" {
				t.Errorf("what it had printed: %q", out.String())
			}
		})
	}
}

// Only the connection of the command breaks: the caller asks the node to end it, and does not
// wait until the time is over.
func TestABrokenConnectionEndsTheCommandAtOnce(t *testing.T) {
	m := newMachine(t, untilCancelled, func(o *remote.ServerOptions) { o.Silence = time.Hour })
	proxy := faultproxy.Start(t, m.http.Listener.Addr().String())
	go func() {
		<-m.begun
		proxy.Cut()
	}()
	n := nodes(t, "http://"+proxy.Addr, func(o *remote.Options) { o.Silence = time.Hour })
	if ended, err := run(t.Context(), n, "1", builtin.Line{Output: &bytes.Buffer{}}); err != nil || !ended.Lost {
		t.Errorf("%+v, %v", ended, err)
	}
	if _, ended := m.whyEnded("1"); !ended {
		t.Error("the command still runs")
	}
	if why := n.Trouble("there"); why == "" {
		t.Error("the node that was lost gets the next command")
	}
}

func TestANodeThatLeavesEndsItsCommands(t *testing.T) {
	m := newMachine(t, untilCancelled)
	go func() {
		<-m.begun
		m.server.Close()
		m.begun <- tool.Call{}
	}()
	_, err := run(t.Context(), nodes(t, m.http.URL), "1", builtin.Line{Output: &bytes.Buffer{}})
	if code := fault.ToWire(err).Code; code != "node_leaves" {
		t.Errorf("%v", err)
	}
	<-m.begun
	if n := m.server.Running(); n != 0 {
		t.Errorf("%d commands run after Close", n)
	}
}

// The active node hangs and reads nothing. The command ends all the same, and so does the server.
func TestAnActiveNodeThatReadsNothingHoldsNobodyUp(t *testing.T) {
	effort.SkipSlow(t)
	t.Parallel()
	for name, leave := range map[string]bool{"it is silent": false, "the node leaves": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			endless := func(ctx context.Context, l builtin.Line) (builtin.Ended, error) {
				for ctx.Err() == nil {
					if _, err := l.Output.Write(make([]byte, 64<<10)); err != nil {
						return builtin.Ended{}, err
					}
				}
				return builtin.Ended{}, context.Cause(ctx)
			}
			m := newMachine(t, endless, func(o *remote.ServerOptions) {
				if o.Silence = brief; leave {
					o.Silence = time.Hour
				}
			})
			conn, err := net.Dial("tcp", m.http.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			marks, err := remote.Leave(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: node\r\nConnection: Upgrade\r\nUpgrade: lilac-command\r\n%s: %s\r\n\r\n", remote.Path, remote.KeyHeader, key)
			if _, err := conn.Read(make([]byte, 12)); err != nil {
				t.Fatal(err)
			}
			order, err := json.Marshal(map[string]any{"id": "1", "callId": "1", "marks": marks})
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(conn, "%s\n", order)
			<-m.begun
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				if leave {
					m.server.Close()
					return
				}
				for m.server.Running() > 0 {
					time.Sleep(10 * time.Millisecond) // polls, until the deadline below
				}
			}()
			select {
			case <-ended:
			case <-time.After(20 * time.Second):
				t.Fatal("the command still runs")
			}
		})
	}
}

// A command that has not begun runs on this node.
func TestANodeThatRefusesIsLeftOut(t *testing.T) {
	other := t.TempDir()
	for name, c := range map[string]struct {
		server func(*remote.ServerOptions)
		client func(*remote.Options)
		says   string
	}{
		"no sandbox": {func(o *remote.ServerOptions) {
			o.Ready = func() error { return fault.New(fault.Unavailable, "There is no sandbox.") }
		}, nil, "There is no sandbox."},
		"another key":            {nil, func(o *remote.Options) { o.Key = "guessed" }, "cannot be reached"},
		"no key":                 {nil, func(o *remote.Options) { o.Key = "" }, "cannot be reached"},
		"files of its own":       {nil, func(o *remote.Options) { o.Marks[0].Text = "another" }, "not the one of the active node"},
		"no such directory":      {nil, func(o *remote.Options) { o.Marks[0].Path = filepath.Join(other, ".lilac-node") }, "not the one of the active node"},
		"a mark that is no mark": {nil, func(o *remote.Options) { o.Marks[0].Path = "/etc/passwd" }, "wrong mark"},
		"nobody listens": {nil, func(o *remote.Options) {
			o.List = func(context.Context) ([]remote.Node, error) {
				return []remote.Node{{Name: "there", URL: "http://127.0.0.1:1", CPUs: 1000}}, nil
			}
		}, "cannot be reached"},
	} {
		t.Run(name, func(t *testing.T) {
			server, client := []func(*remote.ServerOptions){}, []func(*remote.Options){}
			if c.server != nil {
				server = append(server, c.server)
			}
			if c.client != nil {
				client = append(client, c.client)
			}
			m := newMachine(t, untilCancelled, server...)
			n := nodes(t, m.http.URL, client...)
			if _, err := run(t.Context(), n, "1", builtin.Line{}); !errors.Is(err, errHere) {
				t.Errorf("%v, want that it runs here", err)
			}
			if why := n.Trouble("there"); !strings.Contains(why, c.says) {
				t.Errorf("the trouble is %q, want %q", why, c.says)
			}
			if len(m.begun) > 0 {
				t.Error("it also began there")
			}
		})
	}
}

func TestMarksAreReplaced(t *testing.T) {
	dir := t.TempDir()
	first, err := remote.Leave(dir)
	if err != nil {
		t.Fatal(err)
	}
	second, err := remote.Leave(dir)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(second[0].Path)
	if err != nil || string(text) != second[0].Text || first[0].Text == second[0].Text {
		t.Errorf("%q, %v; the marks are %v and %v", text, err, first, second)
	}
	if _, err := remote.Leave(filepath.Join(dir, "missing")); err == nil {
		t.Error("a directory that is not there was marked")
	}
}
