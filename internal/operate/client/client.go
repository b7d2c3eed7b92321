package client

import (
	"bytes"
	"cmp"
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
	// callTimeout limits a call, except streams.
	callTimeout = 30 * time.Second
	// maxAnswer limits a response, in bytes; a page of messages may contain files.
	maxAnswer = 64 << 20
	// noServer is the code of the fault if no server answers.
	noServer = "no_server"
)

// Options locate the server. The zero value finds none.
type Options struct {
	// Addr is host:port or a URL; if empty, it is read from DataDir.
	Addr string
	// DataDir is the server's data directory.
	DataDir string
	// Token is the operator's token; if empty, it is read from DataDir.
	Token string
	// Advice says how to start the server; empty means with "lilac serve".
	Advice string
}

func (o Options) advice() string { return cmp.Or(o.Advice, "Start one with: lilac serve") }

// Client calls one server. It is safe for concurrent use.
type Client struct {
	base string
	// token is the operator's token, tokenFrom its source.
	token, tokenFrom string
	// advice says how to start the server.
	advice string
	// elsewhere reports that the address is the one that browsers use, too: a URL, or another machine.
	elsewhere bool
	http      *http.Client
	// pause is the delay before reconnect attempt n; patience is how long to retry
	// while no server answers. A connection that lasted for steady resets both, even
	// without any event.
	pause            func(attempt int) time.Duration
	patience, steady time.Duration
}

// Connect finds the server without calling it.
func Connect(o Options) (*Client, error) {
	addr, err := o.Find()
	if err != nil {
		return nil, err
	}
	c := &Client{
		base: addr, advice: o.advice(), http: &http.Client{},
		elsewhere: strings.Contains(o.Addr, "://") || !thisMachine(addr),
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

// Addr returns the URL of the server.
func (c *Client) Addr() string { return c.base }

// Find returns the URL of the server: the given address, or the one that the server
// wrote to its data directory.
func (o Options) Find() (string, error) {
	addr := o.Addr
	if addr == "" {
		path := filepath.Join(o.DataDir, "server.json")
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return "", &fault.Error{Kind: fault.Unavailable, Code: noServer, Message: fmt.Sprintf("No server is running for %s. %s", o.DataDir, o.advice())}
		}
		if err != nil {
			return "", fault.Wrap(fault.Unavailable, err, "The server's address in %s cannot be read. Run this as the user of the server, or name another server with --addr or --data", path)
		}
		var announced struct {
			Addr string `json:"addr"`
		}
		if err := json.Unmarshal(data, &announced); err != nil || announced.Addr == "" {
			return "", fault.New(fault.Unavailable, "The file %s contains no address. Restart the server with: lilac serve", path)
		}
		addr = announced.Addr
	}
	if strings.HasPrefix(addr, "http://") || strings.HasPrefix(addr, "https://") {
		return strings.TrimRight(addr, "/"), nil
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", fault.InvalidField("addr", "The address %q does not have the form host:port.", addr)
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "127.0.0.1" // an unspecified address includes loopback
	}
	return "http://" + net.JoinHostPort(host, port), nil
}

func (o Options) findToken(base string) (token, from string, err error) {
	if o.Token != "" {
		return o.Token, "LILAC_TOKEN", nil
	}
	if !thisMachine(base) {
		return "", "", fault.New(fault.Unauthenticated, "%s is another machine. Set LILAC_TOKEN to its token.", base)
	}
	path := filepath.Join(o.DataDir, "token")
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", "", fault.New(fault.Unavailable, "There is no token for %s, because no server has started with the data directory %s. %s. For a server with another data directory, name it with --data, or set LILAC_TOKEN.", base, o.DataDir, o.advice())
	}
	if err != nil {
		return "", "", fault.Wrap(fault.Unauthenticated, err, "The server's token cannot be read. Run this as the user of the server, or set LILAC_TOKEN")
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

// Call makes one call and decodes the response into out, which may be nil.
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
		return c.unreachable(err)
	}
	if out == nil || len(data) == 0 {
		return nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fault.Wrap(fault.Internal, err, "%s did not respond to %s %s with JSON of Lilac", c.base, method, path)
	}
	return nil
}

// send makes a request and returns the response if its status is a success.
func (c *Client) send(ctx context.Context, method, path string, in any, header ...string) (*http.Response, error) {
	resource, _, _ := strings.Cut(path, "?")
	for part := range strings.SplitSeq(resource, "/") {
		if part == "." || part == ".." { // it would change the path, even if escaped
			return nil, fault.New(fault.NotFound, "There is nothing with the id %q.", part)
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
		return nil, fault.Wrap(fault.Invalid, err, "%s is not the address of a server", c.base)
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
		return nil, c.unreachable(err)
	}
	if res.StatusCode < 300 {
		return res, nil
	}
	defer res.Body.Close()
	return nil, refusal(c, res)
}

// unreachable returns the error for a server that does not answer, or for a cancelled
// call.
func (c *Client) unreachable(err error) error {
	if errors.Is(err, context.Canceled) {
		return fault.Wrap(fault.Cancelled, err, "The call was cancelled")
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fault.Wrap(fault.Timeout, err, "The server at %s did not answer in time", c.base)
	}
	return &fault.Error{
		Kind: fault.Unavailable, Code: noServer, Err: err,
		Message: fmt.Sprintf("No server answers at %s. %s", c.base, c.advice),
	}
}

// refusal returns the error of a response that is no success.
func refusal(c *Client, res *http.Response) error {
	data, _ := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	var answer struct {
		Error fault.Wire `json:"error"`
	}
	switch err := json.Unmarshal(data, &answer); {
	case err != nil || answer.Error.Message == "":
		return proxied(c, res)
	case res.StatusCode == http.StatusUnauthorized:
		return fault.New(fault.Unauthenticated, "The server at %s does not accept the token from %s. Set LILAC_TOKEN to the token of the server, or --data to its data directory.", c.base, c.tokenFrom)
	default:
		return fault.FromWire(answer.Error)
	}
}

// proxied returns the error for a response that is not from Lilac, but from a proxy in front of it. One
// that does not reach Lilac will do so when Lilac has restarted.
func proxied(c *Client, res *http.Response) error {
	switch res.StatusCode {
	case http.StatusUnauthorized, http.StatusProxyAuthRequired:
		return fault.New(fault.Unauthenticated, "The proxy at %s asks for a login of its own (%s). Make it pass on requests with a token of Lilac without one.", c.base, res.Status)
	case http.StatusRequestEntityTooLarge:
		return fault.New(fault.TooLarge, "The proxy at %s refuses this as too large (%s). Raise its limit, for example client_max_body_size of nginx.", c.base, res.Status)
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return fault.New(fault.Unavailable, "The proxy at %s does not reach Lilac (%s).", c.base, res.Status)
	}
	return fault.New(fault.Internal, "The server responded with %s, which is not a response of Lilac.", res.Status)
}

// NoServer reports whether err means that no server answered at all, as opposed to a
// server that answers that it is unavailable.
func NoServer(err error) bool {
	var e *fault.Error
	return errors.As(err, &e) && e.Code == noServer
}
