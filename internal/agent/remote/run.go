package remote

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"syscall"
	"time"

	"github.com/oklog/ulid/v2"

	"lilac/internal/agent/builtin"
	"lilac/internal/agent/tool"
	"lilac/internal/foundation/delay"
	"lilac/internal/foundation/fault"
)

const (
	// dialTime limits the time to connect to a node, which is in the same network.
	dialTime = 2 * time.Second
	// stopPause is the pause between two attempts to stop a command whose connection was lost.
	stopPause = 250 * time.Millisecond
	// lateBy is added to the time after which a lost node has certainly ended a command.
	lateBy = time.Second
)

// refusal means that the command did not begin on a node.
type refusal struct{ err error }

func (r *refusal) Error() string { return "the node does not run the command: " + r.err.Error() }

func (r *refusal) Unwrap() error { return r.err }

// runOn runs a line on a node. The error is a [refusal] if the command did not begin.
func (n *Nodes) runOn(ctx context.Context, node Node, call tool.Call, l builtin.Line) (builtin.Ended, error) {
	token, revoke, err := n.opt.Token(call)
	if err != nil {
		return builtin.Ended{}, err
	}
	defer revoke()
	o := order{
		ID: ulid.Make().String(), CallID: call.ID, RequestID: call.RequestID, SessionID: call.SessionID, Client: call.Client, Workspace: call.Workspace,
		Command: l.Command, Dir: l.Dir, TimeoutMS: l.Timeout.Milliseconds(), Token: token, Marks: n.opt.Marks,
	}
	conn, in, err := n.connect(ctx, node)
	if err != nil {
		return builtin.Ended{}, &refusal{fault.Wrap(fault.Unavailable, err, "The node cannot be reached.")}
	}
	defer conn.Close()
	c := &carrier{lines: newStream(conn, in, n.opt.Silence), output: l.Output}
	ended, err := c.carry(ctx, o)
	if !errors.Is(err, errLost) {
		return ended, err
	}
	_ = conn.Close()
	n.opt.Logger.WarnContext(ctx, "a node that runs a command was lost", "node", node.Host, "request_id", call.RequestID, "error", err)
	n.awaitEnd(node, o.ID)
	n.placed.rest(node, fault.New(fault.Unavailable, "The connection to the node was lost."))
	if ctx.Err() != nil {
		return ended, context.Cause(ctx)
	}
	ended.Lost = true
	return ended, nil
}

// connect opens the connection of a command.
func (n *Nodes) connect(ctx context.Context, node Node) (net.Conn, *bufio.Reader, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	at, err := url.Parse(node.URL)
	if err != nil {
		return nil, nil, fmt.Errorf("read the address of a node: %w", err)
	}
	conn, err := dial(ctx, at)
	if err != nil {
		return nil, nil, err
	}
	in, err := upgrade(conn, at, n.opt.Key)
	if err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	return conn, in, nil
}

func dial(ctx context.Context, at *url.URL) (net.Conn, error) {
	if at.Scheme == "https" {
		return (&tls.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(at.Hostname(), orPort(at, "443")))
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(at.Hostname(), orPort(at, "80")))
}

func orPort(at *url.URL, port string) string {
	if p := at.Port(); p != "" {
		return p
	}
	return port
}

func upgrade(conn net.Conn, at *url.URL, key string) (*bufio.Reader, error) {
	if err := conn.SetDeadline(time.Now().Add(dialTime)); err != nil {
		return nil, err
	}
	req, err := http.NewRequest(http.MethodPost, at.JoinPath(Path).String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", protocol)
	req.Header.Set(KeyHeader, key)
	if err := req.Write(conn); err != nil {
		return nil, fmt.Errorf("send the request: %w", err)
	}
	in := bufio.NewReader(conn)
	res, err := http.ReadResponse(in, req)
	if err != nil {
		return nil, fmt.Errorf("read the response: %w", err)
	}
	if res.StatusCode != http.StatusSwitchingProtocols {
		text, _ := io.ReadAll(io.LimitReader(res.Body, 1<<10))
		_ = res.Body.Close()
		return nil, fmt.Errorf("the node answers %s: %s", res.Status, text)
	}
	return in, conn.SetDeadline(time.Time{})
}

// carrier carries a command's order to a node and its output back.
type carrier struct {
	lines   *stream
	output  io.Writer
	started bool
}

// errLost means that the connection of a command was lost.
var errLost = errors.New("the node was lost")

// carry returns the end of the command, a [refusal], or errLost.
func (c *carrier) carry(ctx context.Context, o order) (builtin.Ended, error) {
	if err := c.lines.send(o); err != nil {
		return builtin.Ended{}, fmt.Errorf("%w: %w", errLost, err)
	}
	done := make(chan struct{})
	var saying sync.WaitGroup
	saying.Go(func() { c.lines.keepSaying(signal{}, done) })
	defer saying.Wait()
	defer close(done)
	defer context.AfterFunc(ctx, func() { _ = c.lines.send(signal{Cancel: true}) })() // a failure is noticed by the reader
	for {
		var f frame
		if err := c.lines.receive(&f); err != nil {
			return builtin.Ended{}, fmt.Errorf("%w: %w", errLost, err)
		}
		switch {
		case f.Error != nil && !c.started:
			return builtin.Ended{}, &refusal{asFault(*f.Error)}
		case f.Ended != nil && ctx.Err() != nil:
			return *f.Ended, context.Cause(ctx)
		case f.Error != nil:
			return builtin.Ended{}, asFault(*f.Error)
		case f.Ended != nil:
			return *f.Ended, nil
		}
		c.started = c.started || f.Started
		if len(f.Output) > 0 && c.output != nil {
			_, _ = c.output.Write(f.Output) // as in the sandbox: after an error, the rest is dropped
		}
	}
}

func asFault(w fault.Wire) error {
	return &fault.Error{Kind: w.Kind, Code: w.Code, Message: w.Message, Field: w.Field}
}

// awaitEnd returns when a command whose connection was lost has ended: the node says so, nothing
// listens at its address, or the time has passed after which it has ended the command by itself.
func (n *Nodes) awaitEnd(node Node, id string) {
	ctx, cancel := context.WithTimeout(context.Background(), n.opt.Silence+lateBy)
	defer cancel()
	for {
		if err := n.askToStop(ctx, node, id); err == nil || errors.Is(err, syscall.ECONNREFUSED) {
			return
		}
		if !delay.Wait(ctx, stopPause) {
			return
		}
	}
}

func (n *Nodes) askToStop(ctx context.Context, node Node, id string) error {
	res, err := n.send(ctx, http.MethodPost, node.URL, Path, id, "stop")
	if err != nil {
		return err
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusNoContent {
		return fmt.Errorf("the node answers %s", res.Status)
	}
	return nil
}

// send sends a request without a body to the node at an address. It follows no redirect, which would
// send the key elsewhere. The caller must close the body of the response.
func (n *Nodes) send(ctx context.Context, method, address string, path ...string) (*http.Response, error) {
	at, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("read the address of a node: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, method, at.JoinPath(path...).String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set(KeyHeader, n.opt.Key)
	return (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
}
