package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"lilac/internal/foundation/fault"
)

const (
	// callTimeout bounds a call that is no stream.
	callTimeout = 30 * time.Second
	// maxAnswer bounds what is read of an answer: a page of messages with files.
	maxAnswer = 64 << 20
	// noServer is the code of the fault for a server that does not answer.
	noServer = "no_server"
)

// Options say where the server is. Their zero value finds nothing.
type Options struct {
	// Addr is host:port or a URL; empty looks into DataDir.
	Addr string
	// DataDir is the server's data directory.
	DataDir string
	// Token is the operator's token; empty looks into DataDir.
	Token string
}

// Client is a connection to one server. It may be used concurrently.
type Client struct {
	base string
	// token is the operator's, tokenFrom where it was found.
	token, tokenFrom string
	http             *http.Client
	// pause is the wait before reconnect attempt n; patience is for how long
	// a server that is away is waited for. A stream that lasted as long as
	// steady was one, also when nothing came.
	pause            func(attempt int) time.Duration
	patience, steady time.Duration
}

// Connect finds the server; it does not call it yet.
func Connect(o Options) (*Client, error) {
	addr, err := o.Find()
	if err != nil {
		return nil, err
	}
	c := &Client{
		base: addr, http: &http.Client{},
		pause: func(n int) time.Duration {
			return min(100*time.Millisecond<<min(n, 10), 2*time.Second)
		},
		patience: 2 * time.Minute, steady: 5 * time.Second,
	}
	if c.token, c.tokenFrom, err = o.findToken(addr); err != nil {
		return nil, err
	}
	return c, nil
}

// Addr is the URL of the server.
func (c *Client) Addr() string { return c.base }

// Find returns the URL of the server: the address that was given, or the one that
// it told in its data directory.
func (o Options) Find() (string, error) {
	addr := o.Addr
	if addr == "" {
		path := filepath.Join(o.DataDir, "server.json")
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return "", &fault.Error{Kind: fault.Unavailable, Code: noServer, Message: fmt.Sprintf("No server runs on %s. Start it with: lilac serve", o.DataDir)}
		}
		if err != nil {
			return "", fault.Wrap(fault.Unavailable, err, "The server's address in %s cannot be read", path)
		}
		var announced struct {
			Addr string `json:"addr"`
		}
		if err := json.Unmarshal(data, &announced); err != nil || announced.Addr == "" {
			return "", fault.New(fault.Unavailable, "%s holds no address. Start the server again with: lilac serve", path)
		}
		addr = announced.Addr
	}
	if strings.HasPrefix(addr, "http://") || strings.HasPrefix(addr, "https://") {
		return strings.TrimRight(addr, "/"), nil
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", fault.InvalidField("addr", "The address %q is not of the form host:port.", addr)
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "127.0.0.1" // a server that listens everywhere listens here too
	}
	return "http://" + net.JoinHostPort(host, port), nil
}

func (o Options) findToken(base string) (token, from string, err error) {
	if o.Token != "" {
		return o.Token, "LILAC_TOKEN", nil
	}
	if !thisMachine(base) {
		return "", "", fault.New(fault.Unauthenticated, "%s is another machine: set LILAC_TOKEN to its token.", base)
	}
	path := filepath.Join(o.DataDir, "token")
	data, err := os.ReadFile(path)
	if err != nil {
		return "", "", fault.Wrap(fault.Unauthenticated, err, "The server's token cannot be read (set LILAC_TOKEN, or start it with: lilac serve)")
	}
	return strings.TrimSpace(string(data)), path, nil
}

func thisMachine(base string) bool {
	hostport := strings.TrimPrefix(strings.TrimPrefix(base, "http://"), "https://")
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// Call makes one call and decodes its answer into out, which may be nil.
func (c *Client) Call(ctx context.Context, method, path string, in, out any, header ...string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	res, err := c.send(ctx, method, path, in, header...)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return c.away(err)
	}
	if out == nil || len(data) == 0 {
		return nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fault.Wrap(fault.Internal, err, "%s answered %s %s with something else than Lilac's JSON", c.base, method, path)
	}
	return nil
}

// send makes a request and returns its answer when the status is a success.
func (c *Client) send(ctx context.Context, method, path string, in any, header ...string) (*http.Response, error) {
	resource, _, _ := strings.Cut(path, "?")
	for part := range strings.SplitSeq(resource, "/") {
		if part == "." || part == ".." { // a path goes elsewhere with it, also when it is escaped
			return nil, fault.New(fault.NotFound, "Nothing is called %q.", part)
		}
	}
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return nil, fmt.Errorf("encode request: %w", err)
		}
		body = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "%s is no address of a server", c.base)
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i+1] != "" {
			req.Header.Set(header[i], header[i+1])
		}
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, c.away(err)
	}
	if res.StatusCode < 300 {
		return res, nil
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusUnauthorized {
		return nil, fault.New(fault.Unauthenticated, "The server at %s does not take the token of %s. Set LILAC_TOKEN to the one that it was started with, or --data to its directory.", c.base, c.tokenFrom)
	}
	return nil, refusal(res)
}

// away is a server that does not answer, or our own end.
func (c *Client) away(err error) error {
	if errors.Is(err, context.Canceled) {
		return fault.Wrap(fault.Cancelled, err, "It was stopped")
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fault.Wrap(fault.Timeout, err, "The server at %s did not answer in time", c.base)
	}
	return &fault.Error{
		Kind: fault.Unavailable, Code: noServer, Err: err,
		Message: fmt.Sprintf("No server answers at %s. Start it with: lilac serve", c.base),
	}
}

func refusal(res *http.Response) error {
	data, _ := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	var answer struct {
		Error fault.Wire `json:"error"`
	}
	if err := json.Unmarshal(data, &answer); err == nil && answer.Error.Message != "" {
		return fault.FromWire(answer.Error)
	}
	return fault.New(fault.Internal, "The server answered %s, which is not how Lilac answers.", res.Status)
}

// NoServer reports whether err says that no server answered at all, which is
// apart from one that answers that it is not available.
func NoServer(err error) bool {
	var e *fault.Error
	return errors.As(err, &e) && e.Code == noServer
}
