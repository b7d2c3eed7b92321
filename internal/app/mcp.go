package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"lilac/internal/agent/mcpclient"
	"lilac/internal/agent/sandbox"
	"lilac/internal/core/environment"
	external "lilac/internal/core/program"
	"lilac/internal/core/session"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/osfile"
	"lilac/internal/operate/config"
	"lilac/internal/telemetry/health"
)

// newMCP creates the MCP servers without starting them. Their sockets are created in dir.
func newMCP(b *base, dir string) *mcpclient.Servers {
	o := mcpOptions(b.Config, b.box, dir)
	o.Home = func(name string) (string, error) { return b.homes.ofServer(name) }
	o.Version, o.Logger = b.Version, b.Logger
	o.Publish = func(ctx context.Context, n mcpclient.Notice) error { return publishNotice(ctx, b.sources.intake, n) }
	o.Emit = func(ctx context.Context, server string, data json.RawMessage) error {
		return emitEvent(ctx, b.sources.intake, server, data)
	}
	servers := mcpclient.New(o)
	servers.Set(b.Config.MCPServers)
	return servers
}

// mcpQueue limits the unhandled events of one MCP server.
const mcpQueue = 100

var noticeTypes = map[mcpclient.Kind]event.Type{
	mcpclient.ToolsChanged: event.MCPToolsChanged, mcpclient.PromptsChanged: event.MCPPromptsChanged,
	mcpclient.ResourcesChanged: event.MCPResourcesChanged, mcpclient.ResourceUpdated: event.MCPResourceUpdated,
}

// publishNotice publishes what an MCP server announced. The server is no more trusted than a
// program that is a source of events.
func publishNotice(ctx context.Context, intake *environment.Intake, n mcpclient.Notice) error {
	payload, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("encode event of an MCP server: %w", err)
	}
	e := event.EnvEvent{
		ID: "mcp:" + n.Server + ":" + strings.ToLower(ulid.Make().String()), Type: noticeTypes[n.Kind], Payload: payload,
		// No source has a name with a dot, so that no settings of one apply.
		Metadata: event.EnvMetadata{EnvName: "mcp." + n.Server, Source: "env"},
	}
	_, err = intake.Publish(ctx, environment.SourceID{Kind: environment.SourceMCP, Name: n.Server}, mcpQueue, environment.FromProgram(e), nil)
	return err
}

// MCPLogins returns the logins of MCP servers, which only this program can read.
func MCPLogins(cfg *config.Config) *mcpclient.Vault {
	return &mcpclient.Vault{File: filepath.Join(cfg.DataDir, "mcp-logins.json"), KeyFile: filepath.Join(cfg.DataDir, "mcp-logins.key")}
}

// LogInToMCP lets a person log in to a configured MCP server, and keeps the login.
func LogInToMCP(ctx context.Context, cfg *config.Config, key string, show func(address string)) error {
	entry, ok := cfg.MCPServers[key]
	if !ok {
		return fault.New(fault.NotFound, "There is no MCP server %q in the configuration.%s", key, fault.DidYouMean(key, slices.Collect(maps.Keys(cfg.MCPServers))))
	}
	vault := MCPLogins(cfg)
	before, _, _ := vault.Load(key) // one that can't be read is replaced
	login, err := mcpclient.LogIn(ctx, entry, mcpclient.LoginOptions{Show: show, Registration: before.Registration})
	if err == nil {
		return vault.Save(key, login)
	}
	// Perhaps the authorization server has forgotten Lilac, which many say on a page only: the next login registers again.
	if now, ok, _ := vault.Load(key); ok && before.Registration.URL != "" {
		now.Registration = mcpclient.Registration{}
		err = errors.Join(err, vault.Save(key, now))
	}
	return err
}

// emitEvent publishes an event of an MCP server that is a source, as a line of a program
// would be.
func emitEvent(ctx context.Context, intake *environment.Intake, server string, data json.RawMessage) error {
	e, _, err := external.Parse("mcp."+server, data, time.Now())
	if err != nil {
		return err
	}
	_, err = intake.Publish(ctx, environment.SourceID{Kind: environment.SourceMCP, Name: server}, mcpQueue, e, nil)
	return err
}

// mcpOptions returns options with which stdio servers run as the agent's commands do.
func mcpOptions(cfg *config.Config, box sandbox.Sandbox, dir string) mcpclient.Options {
	l := cfg.Sandbox.Limits
	return mcpclient.Options{
		Logins:  MCPLogins(cfg),
		Sandbox: box, Dir: dir, TmpBytes: int64(l.Tmp),
		Policy: sandbox.Policy{
			Workspace: cfg.Workspace, Hidden: []string{cfg.DataDir}, Masked: masked(cfg), Binds: binds(cfg),
			Limits: sandbox.Limits{MemoryBytes: int64(l.Memory), Processes: l.Processes, DiskBytes: int64(l.Disk)},
		},
	}
}

// forms asks people what MCP servers want to know. The runner is built after the tools.
type forms struct{ *base }

func (f forms) Answer(ctx context.Context, call session.FormCall, form session.Form) (reply string, answered bool, err error) {
	return f.runner.Forms().Answer(ctx, call, form)
}

func (f forms) Used(ctx context.Context, call session.FormCall) error {
	return f.runner.Forms().Used(ctx, call)
}

// mcpParts returns the health of the MCP servers, if there are any. The report is public, so
// it contains no names.
func mcpParts(servers []mcpclient.Status) []health.Part {
	if len(servers) == 0 {
		return nil
	}
	part := health.Part{Name: "mcp", Status: health.OK}
	broken, partial := 0, 0
	for _, s := range servers {
		switch {
		case s.State == mcpclient.Waiting:
			broken++
		case s.State == mcpclient.Ready && s.Trouble != "":
			partial++
		}
	}
	switch {
	case broken > 0:
		part.Status, part.Message = health.Warning, fmt.Sprintf("%d of %d MCP servers do not work; \"lilac mcp list\" says which", broken, len(servers))
	case partial > 0:
		part.Status, part.Message = health.Warning, fmt.Sprintf("not all that %d MCP servers offer can be used; \"lilac mcp list\" says why", partial)
	}
	return []health.Part{part}
}

// MCPTrial is the result of [TestMCP].
type MCPTrial struct {
	mcpclient.Status
	Names []string `json:"names"`
}

// TestMCP starts one configured MCP server as the program does, and returns what it offers.
// It works without a running Lilac, and beside one.
func TestMCP(ctx context.Context, cfg *config.Config, key string) (out MCPTrial, err error) {
	entry, ok := cfg.MCPServers[key]
	if !ok {
		return out, fault.New(fault.NotFound, "There is no MCP server %q in the configuration.%s", key, fault.DidYouMean(key, slices.Collect(maps.Keys(cfg.MCPServers))))
	}
	if entry.Disabled {
		return out, fault.New(fault.Conflict, "The MCP server %s is disabled in the configuration.", key)
	}
	dir, err := os.MkdirTemp("", "lilac-mcp-")
	if err != nil {
		return out, fmt.Errorf("make a directory for the test: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := osfile.MkdirAll(cfg.Workspace, 0o700); err != nil {
		return out, fmt.Errorf("make the workspace: %w", err)
	}
	box := sandbox.Start(ctx, sandbox.Mode(cfg.Sandbox.Mode))
	defer func() { _ = box.Wait() }()
	o := mcpOptions(cfg, box, dir)
	homes := &homes{sessionDirs: sessionDirs{config.HomesDir(cfg)}}
	o.Home = homes.ofServer
	servers := mcpclient.New(o)
	servers.Set(map[string]mcpclient.ServerConfig{key: entry})
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() { defer close(ended); _ = servers.Run(ctx) }()
	defer func() { stop(); <-ended }()
	servers.Settle(ctx)
	out.Status, out.Names = servers.Status()[0], []string{}
	for _, offer := range servers.Offers() {
		for _, t := range offer.Tools {
			out.Names = append(out.Names, t.Name)
		}
	}
	if out.State != mcpclient.Ready {
		return out, fault.New(fault.Unavailable, "The MCP server %s does not work: %s.", key, strings.TrimSuffix(out.Trouble, "."))
	}
	return out, nil
}
