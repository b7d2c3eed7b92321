package mcpclient

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/lazyregexp"
	"lilac/internal/foundation/order"
	"lilac/internal/foundation/text"
)

// Offer lists the tools, resources and prompts of one server.
type Offer struct {
	// Server is its name in callables.
	Server string
	// Tools are sorted by name.
	Tools              []Tool
	Resources, Prompts bool
	// dropped says what was left out, or "".
	dropped string
}

// Tool is a tool of a server. Its texts are the server's.
type Tool struct {
	// Name is its name in callables, and Original the server's name for it.
	Name, Original     string
	Title, Description string
	// Schema is the JSON schema of the input.
	Schema json.RawMessage
	// ReadOnly, Destructive and Idempotent are the server's claims about the tool.
	ReadOnly, Destructive, Idempotent bool
}

const (
	// maxTools bounds the tools of one server, and maxPages the pages of a list.
	maxTools = 1000
	maxPages = 50
	// maxDescription and maxSchema bound the texts of one tool, in bytes, and maxCatalog
	// those of all tools together.
	maxDescription = 16 << 10
	maxSchema      = 128 << 10
	maxCatalog     = 8 << 20
)

// toolName matches the names that a callable may have, and otherSigns what a safe name has no place for. The
// protocol recommends up to 128 letters, digits, underscores, hyphens and dots, but demands nothing.
var (
	toolName   = lazyregexp.New(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)
	otherSigns = lazyregexp.New(`[^A-Za-z0-9_-]+`)
)

// maxToolName bounds the name of a callable, and maxOriginal the server's name for a tool, in bytes.
const (
	maxToolName = 128
	maxOriginal = 1024
)

// reserved are the names of the callables for resources and prompts.
var reserved = []string{"resources", "prompts"}

// safeName returns the name of a tool in callables. It follows from the server's name alone, so that a setting that names
// the tool means the same tool whatever else the server offers.
func safeName(original string) string {
	first, _, _ := strings.Cut(original, ".")
	if len(original) <= maxToolName && toolName().MatchString(original) && !slices.Contains(reserved, first) {
		return original
	}
	return text.Marked(strings.Trim(otherSigns().ReplaceAllString(original, "_"), "_"), original, maxToolName)
}

// list asks a server what it offers.
func list(ctx context.Context, name string, session *mcp.ClientSession, without []string) (Offer, error) {
	out := Offer{Server: name}
	caps := session.InitializeResult().Capabilities
	if caps == nil {
		caps = &mcp.ServerCapabilities{}
	}
	out.Resources, out.Prompts = caps.Resources != nil, caps.Prompts != nil
	if caps.Tools == nil {
		return out, nil
	}
	var dropped []string
	size, seen := 0, map[string]bool{}
	params := &mcp.ListToolsParams{}
	for page := 0; ; page++ {
		if page == maxPages {
			dropped = append(dropped, fmt.Sprintf("pages after the first %d", maxPages))
			break
		}
		result, err := session.ListTools(ctx, params)
		if err != nil {
			return out, fmt.Errorf("list tools: %w", err)
		}
		for _, t := range result.Tools {
			if t == nil || slices.Contains(without, t.Name) || slices.Contains(without, safeName(t.Name)) {
				continue
			}
			tool, err := readTool(t)
			size += len(tool.Schema) + len(tool.Description)
			switch {
			case err != nil, seen[tool.Name], len(out.Tools) >= maxTools, size > maxCatalog:
				dropped = append(dropped, text.TruncateRunes(text.SingleLine(t.Name), 40))
				continue
			}
			seen[tool.Name] = true
			out.Tools = append(out.Tools, tool)
		}
		if result.NextCursor == "" || result.NextCursor == params.Cursor {
			break
		}
		params = &mcp.ListToolsParams{Cursor: result.NextCursor}
	}
	order.By(out.Tools, func(a, b Tool) int { return strings.Compare(a.Name, b.Name) })
	if n := len(dropped); n > 0 {
		out.dropped = fmt.Sprintf("%s left out, because of names or sizes that are not allowed: %s", text.Count(n, "tool"), strings.Join(dropped[:min(n, 5)], ", "))
	}
	return out, nil
}

// readTool checks a tool.
func readTool(t *mcp.Tool) (Tool, error) {
	out := Tool{Name: safeName(t.Name), Original: t.Name, Title: t.Title, Description: text.TruncateWith(text.Sanitize(t.Description), maxDescription, "…")}
	if t.Name == "" || len(t.Name) > maxOriginal {
		return out, fault.New(fault.Invalid, "The tool %q has a name that cannot be used.", t.Name)
	}
	schema, err := json.Marshal(ofObject(t.InputSchema))
	if err != nil || len(schema) > maxSchema {
		return out, fault.New(fault.Invalid, "The tool %q has a schema that is too large.", t.Name)
	}
	out.Schema, out.Destructive = schema, true
	if a := t.Annotations; a != nil {
		out.ReadOnly, out.Idempotent = a.ReadOnlyHint, a.IdempotentHint
		out.Destructive = !a.ReadOnlyHint && (a.DestructiveHint == nil || *a.DestructiveHint)
		if out.Title == "" {
			out.Title = a.Title
		}
	}
	out.Title = text.TruncateRunes(text.SingleLine(out.Title), 200)
	return out, nil
}

// ofObject returns a schema in the form of an input that the protocol demands. Servers break it (an empty list as the
// properties is common), and then models refuse the tool, and clients of Lilac the tools of all servers.
func ofObject(given any) map[string]any {
	was, _ := given.(map[string]any) // the SDK keeps it, and reads it during calls
	schema := map[string]any{}
	maps.Copy(schema, was)
	schema["type"] = "object"
	delete(schema, "properties")
	if properties, ok := was["properties"].(map[string]any); ok {
		properties = maps.Clone(properties)
		for name, property := range properties {
			if _, ok := property.(map[string]any); !ok { // true means anything, too
				properties[name] = map[string]any{}
			}
		}
		schema["properties"] = properties
	}
	required, ok := was["required"].([]any)
	if !ok || slices.ContainsFunc(required, func(name any) bool { _, ok := name.(string); return !ok }) {
		delete(schema, "required")
	}
	return schema
}
