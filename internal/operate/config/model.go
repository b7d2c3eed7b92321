package config

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"lilac/internal/foundation/fault"
	"lilac/internal/model/catalog"
)

// A ModelChoice holds everything that is needed to create the client of a model.
type ModelChoice struct {
	// Provider is the name of the provider; Name is the model's name at that provider.
	Provider string
	Name     string
	Type     ProviderType
	BaseURL  string
	APIKey   Secret
	// MoreKeys are used while the provider refuses or limits those before them.
	MoreKeys []Secret

	ContextTokens   int
	MaxOutputTokens int
	// ContextUnknown means that ContextTokens is a guess.
	ContextUnknown bool
	Images         bool
	// Facts holds what the catalog knows; its sizes and its price are without the overrides of
	// the models section.
	Facts catalog.Model
	// Auth is empty for a key.
	Auth Auth
	// API is empty for the default API of the endpoint.
	API API
	// Headers are added to each request: those of the provider and of the model.
	Headers http.Header
	// Options holds the options of the models section, without the facts above.
	Options Model
	// Price is nil if it is unknown.
	Price *Price
	// Why explains the choice to people.
	Why string
}

// String returns provider/model, or only the provider if it has a single model.
func (m ModelChoice) String() string {
	if m.Name == m.Provider {
		return m.Provider
	}
	return m.Provider + "/" + m.Name
}

// Keys returns all keys, without empty ones unless there is no other.
func (m ModelChoice) Keys() []Secret {
	var out []Secret
	for _, key := range append([]Secret{m.APIKey}, m.MoreKeys...) {
		if key.Set() && !slices.Contains(out, key) {
			out = append(out, key)
		}
	}
	if len(out) == 0 {
		out = append(out, m.APIKey)
	}
	return out
}

// KeySetting returns the names of the settings that hold the provider's API key.
func (m ModelChoice) KeySetting() string { return KeySetting(m.Provider) }

// KeySetting returns the names of the settings that hold a provider's API key.
func KeySetting(provider string) string {
	setting := "providers." + provider + ".apiKey"
	for _, d := range defaultModels {
		if d.provider == provider {
			return d.env + " or " + setting
		}
	}
	return setting
}

// defaultModels lists the models to choose if only an API key is set, in this order. For each
// provider, it is the current mid-range model that supports tools over the protocol that Lilac
// uses and that has no retirement date.
var defaultModels = []struct{ provider, model, env string }{
	{"anthropic", "claude-sonnet-5-5", "ANTHROPIC_API_KEY"},
	{"openai", "gpt-5.4", "OPENAI_API_KEY"},
	{"gemini", "gemini-3.8-flash", "GEMINI_API_KEY"},
}

// ResolveModels returns the model that answers, and those that take over while it fails.
func (c *Config) ResolveModels() ([]ModelChoice, error) { return c.SelectModels(Selection{}) }

// ResolveModel chooses the model that answers: the configured one, or else the default of the
// first provider whose key is set, or else the demo model.
func (c *Config) ResolveModel() (ModelChoice, error) {
	if len(c.Model) > 0 {
		return c.lookupModel(c.Model[0], fmt.Sprintf("set by %s", c.Origin("model")))
	}
	for _, d := range defaultModels {
		if c.Providers[d.provider].APIKey.Set() {
			return c.lookupModel(d.provider+"/"+d.model, fmt.Sprintf("the key of %s is set", d.provider))
		}
	}
	return c.lookupModel("demo", "no model and no key is set")
}

// LookupModel returns the model with a name of the form provider/model.
func (c *Config) LookupModel(ref string) (ModelChoice, error) { return c.lookupModel(ref, "named") }

// OnlineProviders returns the names of the providers that can be asked: those with a key, or with
// another address than the built-in one.
func (c *Config) OnlineProviders() []string {
	var out []string
	for name, p := range c.Providers {
		if p.Type != Demo && (p.APIKey.Set() || p.BaseURL != Default().Providers[name].BaseURL) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

func (c *Config) lookupModel(ref, why string) (ModelChoice, error) {
	provider, name, ok := strings.Cut(ref, "/")
	if ref == "demo" {
		name, ok = "demo", true
	}
	if !ok || provider == "" || name == "" {
		return ModelChoice{}, fault.InvalidField("model", "The model %q is not of the form provider/model, for example anthropic/claude-sonnet-5-5.", ref)
	}
	p, known := c.Providers[provider]
	if !known {
		names := slices.Sorted(maps.Keys(c.Providers))
		return ModelChoice{}, fault.InvalidField("model", "The model %q names a provider that is not configured%s (there are %s).",
			ref, didYouMean(provider, names), strings.Join(names, ", "))
	}
	if p.Type != Demo && !p.APIKey.Set() && len(p.APIKeys) == 0 && p.BaseURL == Default().Providers[provider].BaseURL {
		return ModelChoice{}, fault.InvalidField("model", "The model %q needs a key: set %s.", ref, KeySetting(provider))
	}
	choice := ModelChoice{
		Provider: provider, Name: name, Type: p.Type, BaseURL: strings.TrimRight(p.BaseURL, "/"), APIKey: p.APIKey, MoreKeys: p.APIKeys,
		API: p.API, Auth: p.Auth, Why: why,
	}
	if p.Type == Demo {
		choice.applyFacts(catalog.Model{Tools: true}, false)
		choice.Price = &Price{} // it runs in this process and costs nothing
	} else {
		choice.applyFacts(c.Facts().Find(catalog.Query{Provider: provider, BaseURL: p.BaseURL, Model: name}))
	}
	if m, ok := c.Models[ref]; ok {
		choice.override(m)
	}
	choice.Headers = p.Headers.header(choice.Options.Headers)
	return choice, nil
}

// ListHeader returns the headers of a request for the list of a provider's models: its own, and those
// of its first model that has any, because some gateways answer nothing without them.
func ListHeader(c *Config, provider string) http.Header {
	var first Headers
	for _, ref := range slices.Sorted(maps.Keys(c.Models)) {
		if of, _, _ := strings.Cut(ref, "/"); of == provider && len(c.Models[ref].Headers) > 0 {
			first = c.Models[ref].Headers
			break
		}
	}
	return c.Providers[provider].Headers.header(first)
}

func (m *ModelChoice) override(with Model) {
	m.Options = with
	m.Options.ContextTokens, m.Options.MaxOutputTokens, m.Options.Price = 0, 0, nil
	m.Options.Images, m.Options.PDFs, m.Options.Audio, m.Options.Thinking, m.Options.Tools = nil, nil, nil, nil, nil
	if with.ContextTokens != 0 {
		m.ContextTokens, m.ContextUnknown = with.ContextTokens, false
	}
	if with.MaxOutputTokens != 0 {
		m.MaxOutputTokens = with.MaxOutputTokens
	}
	if with.Images != nil {
		m.Images = *with.Images
	}
	for fact, said := range map[*bool]*bool{&m.Facts.PDFs: with.PDFs, &m.Facts.Audio: with.Audio, &m.Facts.Thinking: with.Thinking, &m.Facts.Tools: with.Tools} {
		if said != nil {
			*fact = *said
		}
	}
	if with.Price != nil {
		m.Price = with.Price
	}
	m.MaxOutputTokens = min(m.MaxOutputTokens, m.ContextTokens)
}
