// Package mcpserver offers the callables over the Model Context Protocol (MCP), so that
// other programs, such as an IDE or another Lilac, can use them.
//
// It is a translation and has no rights of its own: a request carries an operator's token of
// the tool server ([toolserver.Operators]), sees the callables that the token allows, and
// calls them through [toolserver.Pass], with the same limits and records. It keeps no
// sessions, so that each request is checked on its own. Whoever mounts the handler checks
// hosts and origins. A [Handler] is safe for concurrent use.
package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/text"
	"lilac/internal/serve/toolserver"
	"lilac/internal/serve/toolwire"
)

const (
	// maxBody bounds a request, in bytes. An input of a callable has at most 1 MiB.
	maxBody = 2 << 20
	// instructions tell clients what the server is.
	instructions = "These are the operations of Lilac, an agent: messages, conversations, events, workflows, background tasks, and the tools of its own MCP servers. " +
		"Each call is recorded. A tool that is not marked as idempotent must not be repeated if its outcome is unknown."
)

// Options configure a [Handler].
type Options struct {
	Tools   *toolserver.Server
	Version string
	Logger  *slog.Logger
}

// Handler serves MCP.
type Handler struct {
	o    Options
	http http.Handler
}

type passKey struct{}

// New returns a handler.
func New(o Options) *Handler {
	h := &Handler{o: o}
	// The origin and the host are checked before, also behind a proxy.
	h.http = mcp.NewStreamableHTTPHandler(h.server, &mcp.StreamableHTTPOptions{Stateless: true, DisableLocalhostProtection: true, MaxRequestBodyBytes: maxBody})
	return h
}

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		token = ""
	}
	pass, err := h.o.Tools.Admit(r.Context(), token)
	if err != nil {
		wire := fault.ToWire(err)
		w.Header().Set("WWW-Authenticate", `Bearer realm="lilac"`)
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.WriteHeader(wire.Kind.HTTPStatus())
		_ = json.NewEncoder(w).Encode(map[string]any{"error": wire}) // a client that is gone needs no answer
		return
	}
	w.Header().Set("X-Accel-Buffering", "no") // nginx would hold streams back
	h.http.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), passKey{}, pass)))
}

// server returns the server for one request, with the tools that its token allows.
func (h *Handler) server(r *http.Request) *mcp.Server {
	out := mcp.NewServer(&mcp.Implementation{Name: "lilac", Title: "Lilac", Version: h.o.Version}, &mcp.ServerOptions{
		Instructions: instructions, Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}},
		// A cache between must not give the list of one token to another.
		SetCacheable: func(_ context.Context, _ mcp.Request, c *mcp.Cacheable) { c.CacheScope = "private" },
	})
	pass, ok := r.Context().Value(passKey{}).(*toolserver.Pass)
	if !ok {
		return out
	}
	all, err := pass.Callables(r.Context())
	if err != nil {
		h.o.Logger.ErrorContext(r.Context(), "cannot describe the callables", "error", err)
		return out
	}
	names := map[string]bool{}
	for _, c := range all {
		name := Name(c.ID)
		if names[name] {
			name = text.Marked(name, c.ID, maxName)
		}
		if names[name] || !offer(out, describe(name, c), func(ctx context.Context, call *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return h.call(ctx, pass, c.ID, call)
		}) {
			h.o.Logger.WarnContext(r.Context(), "a callable cannot be offered over MCP", "callable", c.ID)
			continue
		}
		names[name] = true
	}
	return out
}

// offer adds a tool. The SDK panics on a schema that the protocol does not allow, which may be one of another server.
func offer(to *mcp.Server, tool *mcp.Tool, handle mcp.ToolHandler) (ok bool) {
	defer func() { ok = recover() == nil }()
	to.AddTool(tool, handle)
	return
}

// maxName bounds the name of a tool, in bytes. The APIs of models allow 64, and hosts put the name of the server before
// it, as in mcp__lilac__NAME.
const maxName = 48

// Name returns the name of a callable as a tool. The APIs of models allow no dots in names.
func Name(id string) string {
	name := strings.ReplaceAll(id, ".", "__")
	if len(name) > maxName {
		name = text.Marked(name, id, maxName)
	}
	return name
}

func describe(name string, c toolwire.Help) *mcp.Tool {
	description := c.Summary.Summary
	if c.Description != "" {
		description += ".\n\n" + c.Description
	}
	no := false
	hints := &mcp.ToolAnnotations{ReadOnlyHint: !c.Changes, IdempotentHint: c.Repeatable}
	if !c.Changes {
		hints.DestructiveHint = &no
	}
	return &mcp.Tool{Name: name, Title: c.ID, Description: description, InputSchema: c.Input, Annotations: hints}
}

// call calls a callable. Its errors are results, so that a model can react to them.
func (h *Handler) call(ctx context.Context, pass *toolserver.Pass, id string, call *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var show func(string)
	if token := call.Params.GetProgressToken(); token != nil {
		step := 0.0
		show = func(line string) {
			step++
			_ = call.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: step, Message: line})
		}
	}
	value, err := pass.Call(ctx, id, call.Params.Arguments, show)
	if err != nil {
		wire := fault.ToWire(err)
		if wire.Kind == fault.Internal {
			h.o.Logger.ErrorContext(ctx, "a call over MCP failed", "callable", id, "error", err)
		}
		return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: wire.Message}}}, nil
	}
	if strings.HasPrefix(id, "mcp.") {
		if out := passed(value); out != nil {
			return out, nil
		}
	}
	return result(value), nil
}

// passed returns a result of an MCP server in the form of the protocol, so that a model sees its pictures. It returns nil
// if the result has no such parts.
func passed(value json.RawMessage) *mcp.CallToolResult {
	var got struct {
		Structured map[string]any
		Content    []struct {
			Type, Text, MimeType, URI, Name, Description string
			Data                                         []byte
		}
	}
	if json.Unmarshal(value, &got) != nil || len(got.Content) == 0 {
		return nil
	}
	out := &mcp.CallToolResult{}
	if got.Structured != nil {
		out.StructuredContent = got.Structured
	}
	for _, c := range got.Content {
		var part mcp.Content
		switch c.Type {
		case "text":
			part = &mcp.TextContent{Text: c.Text}
		case "image":
			part = &mcp.ImageContent{Data: c.Data, MIMEType: c.MimeType}
		case "audio":
			part = &mcp.AudioContent{Data: c.Data, MIMEType: c.MimeType}
		case "resource":
			part = &mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: c.URI, MIMEType: c.MimeType, Text: c.Text, Blob: c.Data}}
		case "resource_link":
			part = &mcp.ResourceLink{URI: c.URI, Name: c.Name, Description: c.Description, MIMEType: c.MimeType}
		default:
			return nil
		}
		out.Content = append(out.Content, part)
	}
	return out
}

// result translates a value: a text as it is, everything else as JSON, which for objects is
// also the structured result.
func result(value json.RawMessage) *mcp.CallToolResult {
	var said string
	if json.Unmarshal(value, &said) == nil {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: said}}}
	}
	out := &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(value)}}}
	if bytes.HasPrefix(bytes.TrimSpace(value), []byte("{")) {
		out.StructuredContent = slices.Clone(value)
	}
	return out
}
