package toolcli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"lilac/internal/foundation/fault"
	"lilac/internal/serve/toolwire"
)

// maxAnswer limits a response of the server, in bytes.
const maxAnswer = 16 << 20

// client sends requests to one server.
type client struct {
	http    *http.Client
	base    string
	where   string
	token   string
	context map[string]string
}

// connect finds the server that the environment variables or the data directory name.
func (c Command) connect() (*client, error) {
	to := &client{token: c.Getenv(toolwire.EnvToken), context: map[string]string{}}
	for _, name := range toolwire.Contexts {
		v := c.Getenv("LILAC_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_")))
		if v != "" && !strings.ContainsAny(v, "\r\n\x00") {
			to.context[toolwire.HeaderPrefix+name] = v
		}
	}
	// Proxies and redirects are disabled, because either could expose the token.
	transport := &http.Transport{DisableKeepAlives: true}
	to.http = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	socket, address := c.Getenv(toolwire.EnvSocket), c.Getenv(toolwire.EnvURL)
	dir := ""
	if socket == "" && address == "" {
		var err error
		if dir, err = c.dataDir(); err != nil {
			return nil, err
		}
		socket = announced(dir)
	}
	switch {
	case socket != "":
		to.base, to.where = "http://localhost", socket
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}
	case address != "":
		u, err := url.Parse(address)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return nil, fault.InvalidField(toolwire.EnvURL, "%s has to be an address such as http://127.0.0.1:7421, not %q.", toolwire.EnvURL, address)
		}
		to.base, to.where = strings.TrimSuffix(address, "/"), address
	default:
		return nil, fault.New(fault.Unavailable, "There is no tool server here: neither %s nor %s is set, and no Lilac runs on the data directory %s. Start it with: lilac serve", toolwire.EnvSocket, toolwire.EnvURL, dir)
	}
	return to, nil
}

// dataDir returns the data directory of a Lilac server that may be running.
func (c Command) dataDir() (string, error) {
	if c.DataDir != nil {
		return c.DataDir()
	}
	if dir := c.Getenv("LILAC_DATA_DIR"); dir != "" {
		return dir, nil
	}
	return filepath.Join(c.Getenv("HOME"), ".lilac"), nil
}

// announced returns the socket of the Lilac server that runs on a data directory, or "" if
// none runs. The file with the address is not visible to the agent's commands.
func announced(dir string) string {
	data, err := os.ReadFile(filepath.Join(dir, "server.json"))
	if err != nil {
		return ""
	}
	var says struct {
		ToolSocket string `json:"toolSocket"`
	}
	if json.Unmarshal(data, &says) != nil {
		return ""
	}
	return says.ToolSocket
}

// ask sends a request and decodes the response.
func (to *client) ask(ctx context.Context, method, path string, body, out any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode call: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, method, to.base+path, bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	for name, value := range to.context {
		req.Header.Set(name, value)
	}
	req.Header.Set("Authorization", "Bearer "+to.token)
	req.Header.Set("Content-Type", "application/json")
	res, err := to.http.Do(req)
	if err != nil {
		return to.trouble(ctx, err)
	}
	defer res.Body.Close()
	if data, err = io.ReadAll(io.LimitReader(res.Body, maxAnswer+1)); err != nil {
		return to.trouble(ctx, err)
	}
	if len(data) > maxAnswer {
		return fault.New(fault.TooLarge, "The server answered more than %d bytes.", maxAnswer)
	}
	var answer toolwire.Answer
	if json.Unmarshal(data, &answer) == nil && answer.Error != nil {
		return fault.FromWire(*answer.Error)
	}
	if res.StatusCode != http.StatusOK || json.Unmarshal(data, out) != nil {
		return fault.New(fault.Unavailable, "What answers at %s is no tool server of Lilac (status %d).", to.where, res.StatusCode)
	}
	return nil
}

func (to *client) trouble(ctx context.Context, err error) error {
	var dial *net.OpError
	switch {
	case ctx.Err() != nil:
		return fault.New(fault.Cancelled, "Stopped. Whether the call took effect is not known.")
	case errors.As(err, &dial) && dial.Op == "dial":
		return &fault.Error{Kind: fault.Unavailable, Code: "no_server", Message: "No tool server answers at " + to.where + ". Is Lilac running?"}
	}
	return &fault.Error{Kind: fault.Unavailable, Code: "broken_off", Message: "The tool server at " + to.where + " broke off. Whether the call took effect is not known."}
}
