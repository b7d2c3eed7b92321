package mcpclient

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/text"
)

// Result is the outcome of a call.
type Result struct {
	Content []Content
	// Structured is the structured result, or nil.
	Structured json.RawMessage
}

// Message is a message of a prompt.
type Message struct {
	Role    string
	Content Content
}

// The types of content.
const (
	TypeText     = "text"
	TypeImage    = "image"
	TypeAudio    = "audio"
	TypeResource = "resource"
	TypeLink     = "resource_link"
)

// Content is a part of a result.
type Content struct {
	Type string
	// Text is set for texts, and resources that are texts.
	Text string
	// Data is set for pictures, audio, and other resources.
	Data     []byte
	MimeType string
	// URI, Name and Description are set for resources and links.
	URI, Name, Description string
}

// readResult translates a result. An error that the tool reports becomes a fault.
func readResult(server string, r *mcp.CallToolResult) (out Result, err error) {
	for _, c := range r.Content {
		if c != nil {
			out.Content = append(out.Content, content(c))
		}
	}
	if r.StructuredContent != nil {
		if out.Structured, err = json.Marshal(r.StructuredContent); err != nil {
			return Result{}, fmt.Errorf("read structured result: %w", err)
		}
		out.dropRepetition()
	}
	if r.IsError {
		failed := fault.New(fault.Conflict, "The tool of the MCP server %s reports an error: %s", server, text.TruncateRunes(text.Sanitize(strings.TrimSpace(out.texts()+"\n"+string(out.Structured))), maxErrorText))
		failed.Code = "tool_error"
		return Result{}, failed
	}
	return out, nil
}

// dropRepetition drops one of the two forms of a result if they say the same. Servers repeat the
// structured result as a text, for clients that don't know it. A result that is no object is in the
// only field of one ("result" in the SDK for Python, "content" in the servers of the protocol's
// project), and each item of a list may be a text.
func (r *Result) dropRepetition() {
	var texts []string
	for _, c := range r.Content {
		if c.Type != TypeText {
			return
		}
		texts = append(texts, c.Text)
	}
	forms := []json.RawMessage{r.Structured}
	var wrapped map[string]json.RawMessage
	if json.Unmarshal(r.Structured, &wrapped) == nil && len(wrapped) == 1 {
		forms = slices.AppendSeq(forms, maps.Values(wrapped))
	}
	for _, form := range forms {
		var text string
		var list []json.RawMessage
		switch {
		case len(texts) == 1 && json.Unmarshal(form, &text) == nil && text == texts[0]:
			r.Structured = nil
			return
		case len(texts) == 1 && sameJSON(form, []byte(texts[0])), json.Unmarshal(form, &list) == nil && slices.EqualFunc(list, texts, sayTheSame):
			r.Content = nil
			return
		}
	}
}

// sayTheSame reports whether a text is a value of JSON, or the text in it.
func sayTheSame(value json.RawMessage, said string) bool {
	var text string
	return json.Unmarshal(value, &text) == nil && text == said || sameJSON(value, []byte(said))
}

func (r Result) texts() string {
	var texts []string
	for _, c := range r.Content {
		if c.Text != "" {
			texts = append(texts, c.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// sameJSON reports whether two JSON texts have the same value.
func sameJSON(a, b []byte) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	first, _ := json.Marshal(x) // values that were decoded always marshal
	second, _ := json.Marshal(y)
	return bytes.Equal(first, second)
}

func content(c mcp.Content) Content {
	switch c := c.(type) {
	case *mcp.TextContent:
		return Content{Type: TypeText, Text: c.Text}
	case *mcp.ImageContent:
		return Content{Type: TypeImage, Data: c.Data, MimeType: c.MIMEType}
	case *mcp.AudioContent:
		return Content{Type: TypeAudio, Data: c.Data, MimeType: c.MIMEType}
	case *mcp.ResourceLink:
		return Content{Type: TypeLink, URI: c.URI, Name: c.Name, Description: c.Description, MimeType: c.MIMEType}
	case *mcp.EmbeddedResource:
		if c.Resource != nil {
			return resourceContent(c.Resource)
		}
	}
	return Content{Type: TypeText, Text: "(a part of a kind that is not known)"}
}

func resourceContent(r *mcp.ResourceContents) Content {
	return Content{Type: TypeResource, URI: r.URI, MimeType: r.MIMEType, Text: r.Text, Data: r.Blob}
}

// Listed is a resource, a template of resources, or a prompt, in a list.
type Listed struct {
	// URI is set for a resource, Template for a template.
	URI         string `json:"uri,omitempty"`
	Template    string `json:"uriTemplate,omitempty"`
	Name        string `json:"name,omitempty"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	MimeType    string `json:"mimeType,omitempty"`
	// Arguments are those of a prompt.
	Arguments []Argument `json:"arguments,omitempty"`
}

// Argument is an argument of a prompt.
type Argument struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Required    bool   `json:"required,omitempty"`
}

// maxListed bounds a list of resources or prompts.
const maxListed = 1000

// Resources lists the resources and the templates of a server.
func (s *Servers) Resources(ctx context.Context, server string) (out []Listed, err error) {
	one, err := s.find(server)
	if err != nil {
		return nil, err
	}
	err = one.call(ctx, People{}, func(ctx context.Context, live *connection, _ func()) error {
		for r, err := range live.session.Resources(ctx, nil) {
			if err != nil {
				return err
			}
			if len(out) >= maxListed {
				return nil
			}
			out = append(out, Listed{URI: r.URI, Name: r.Name, Title: r.Title, Description: r.Description, MimeType: r.MIMEType})
		}
		for t, err := range live.session.ResourceTemplates(ctx, nil) {
			if _, refused := isWire(err); refused || len(out) >= maxListed {
				return nil // a server need not have templates
			}
			if err != nil {
				return err
			}
			out = append(out, Listed{Template: t.URITemplate, Name: t.Name, Title: t.Title, Description: t.Description, MimeType: t.MIMEType})
		}
		return nil
	})
	return out, err
}

// Prompts lists the prompts of a server.
func (s *Servers) Prompts(ctx context.Context, server string) (out []Listed, err error) {
	one, err := s.find(server)
	if err != nil {
		return nil, err
	}
	err = one.call(ctx, People{}, func(ctx context.Context, live *connection, _ func()) error {
		for p, err := range live.session.Prompts(ctx, nil) {
			if err != nil {
				return err
			}
			if len(out) >= maxListed {
				return nil
			}
			listed := Listed{Name: p.Name, Title: p.Title, Description: p.Description}
			for _, a := range p.Arguments {
				if a != nil {
					listed.Arguments = append(listed.Arguments, Argument{Name: a.Name, Description: a.Description, Required: a.Required})
				}
			}
			out = append(out, listed)
		}
		return nil
	})
	return out, err
}
