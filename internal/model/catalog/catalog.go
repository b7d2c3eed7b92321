package catalog

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"sync"

	"lilac/internal/foundation/order"
)

// builtin is catalog.json, packed because it would be the largest file in the program.
//
//go:embed catalog.json.gz
var builtin []byte

// Builtin returns the catalog in the program. It is parsed at the first call.
var Builtin = sync.OnceValue(func() *Catalog {
	text, err := unpack(builtin)
	if err != nil {
		panic("catalog.json.gz: " + err.Error()) // a test unpacks it
	}
	c, err := Parse(text)
	if err != nil {
		panic("catalog.json: " + err.Error()) // a test parses it
	}
	return c
})

func unpack(packed []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// A Catalog finds the facts about models.
type Catalog struct {
	// Source says where the facts are from, and of which date they are.
	Source    Source
	providers []provider
}

// A Source is the value of $source.
type Source struct {
	Date string   `json:"date"`
	From []string `json:"from"`
}

// String returns the source as one line.
func (s Source) String() string {
	if s.Date == "" && len(s.From) == 0 {
		return "unknown source"
	}
	return strings.TrimSpace(strings.Join(s.From, ", ") + " of " + s.Date)
}

// A Model holds the facts about one model. Zero means unknown.
type Model struct {
	// ID is the model's name at Provider, which is a name of the catalog.
	ID, Provider string
	// Name is for people.
	Name                           string
	ContextTokens, MaxOutputTokens int
	// Price is nil if it is unknown.
	Price *Price
	// Images, PDFs, and Audio are the inputs that the model accepts besides text.
	Images, PDFs, Audio bool
	// Thinking means that the model can think before it answers, and Tools that it can
	// call tools.
	Thinking, Tools bool
}

// A Price is in US dollars per million tokens.
type Price struct {
	Input, Output, CacheRead, CacheWrite float64
}

type provider struct {
	id     string
	host   string
	models []Model // sorted by ID
	// names are the canonical names of the models, in the same order. Every request finds its
	// model, and there are more than a thousand.
	names []string
}

// The shape of models.dev/api.json, as far as Lilac uses it.
type (
	fileProvider struct {
		API    string               `json:"api"`
		Models map[string]fileModel `json:"models"`
	}
	fileModel struct {
		Name       string `json:"name"`
		Attachment bool   `json:"attachment"`
		Reasoning  bool   `json:"reasoning"`
		ToolCall   *bool  `json:"tool_call"`
		Modalities struct {
			Input []string `json:"input"`
		} `json:"modalities"`
		Limit struct {
			Context int `json:"context"`
			Output  int `json:"output"`
		} `json:"limit"`
		Cost *struct {
			Input      *float64 `json:"input"`
			Output     *float64 `json:"output"`
			CacheRead  *float64 `json:"cache_read"`
			CacheWrite *float64 `json:"cache_write"`
		} `json:"cost"`
	}
)

// Parse reads a file in the shape of models.dev/api.json. It ignores fields that it does
// not know.
func Parse(data []byte) (*Catalog, error) {
	var file map[string]json.RawMessage
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, fmt.Errorf("decode catalog: %w", err)
	}
	c := &Catalog{}
	for id, raw := range file {
		if id == "$source" {
			_ = json.Unmarshal(raw, &c.Source) // a wrong source is an unknown one
			continue
		}
		var p fileProvider
		if err := json.Unmarshal(raw, &p); err != nil {
			return nil, fmt.Errorf("decode provider %s: %w", id, err)
		}
		if len(p.Models) > 0 {
			c.providers = append(c.providers, newProvider(id, p))
		}
	}
	if len(c.providers) == 0 {
		return nil, errors.New("the catalog has no models: it must have the shape of models.dev/api.json")
	}
	order.By(c.providers, func(a, b provider) int { return strings.Compare(a.id, b.id) })
	return c, nil
}

func newProvider(id string, p fileProvider) provider {
	out := provider{id: id, host: hostOf(p.API)}
	for name, m := range p.Models {
		out.models = append(out.models, m.model(id, name))
	}
	order.By(out.models, func(a, b Model) int { return strings.Compare(a.ID, b.ID) })
	for _, m := range out.models {
		out.names = append(out.names, canonical(m.ID))
	}
	return out
}

func (m fileModel) model(provider, id string) Model {
	accepts := func(kind string) bool { return slices.Contains(m.Modalities.Input, kind) }
	out := Model{
		ID: id, Provider: provider, Name: m.Name,
		ContextTokens: max(0, m.Limit.Context), MaxOutputTokens: max(0, m.Limit.Output),
		Images: accepts("image") || len(m.Modalities.Input) == 0 && m.Attachment, PDFs: accepts("pdf"), Audio: accepts("audio"),
		Thinking: m.Reasoning, Tools: m.ToolCall == nil || *m.ToolCall,
	}
	if c := m.Cost; c != nil && c.Input != nil && c.Output != nil && *c.Input >= 0 && *c.Output >= 0 {
		out.Price = &Price{Input: *c.Input, Output: *c.Output, CacheRead: *c.Input, CacheWrite: *c.Input}
		if c.CacheRead != nil && *c.CacheRead >= 0 {
			out.Price.CacheRead = *c.CacheRead
		}
		if c.CacheWrite != nil && *c.CacheWrite >= 0 {
			out.Price.CacheWrite = *c.CacheWrite
		}
	}
	return out
}

func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Hostname())
}
