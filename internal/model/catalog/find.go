package catalog

import (
	"slices"
	"strings"

	"lilac/internal/foundation/lazyregexp"
)

// A Query names a model as the configuration does.
type Query struct {
	// Provider is the configured name of the provider, and BaseURL its address.
	Provider, BaseURL string
	// Model is the model's name at that provider, such as gpt-5.4 or openai/gpt-5.4.
	Model string
}

// Find returns the facts about a model. In this order, it looks for the name
//
//  1. at the provider with the queried address or name,
//  2. at the vendor that the name begins with (anthropic/claude-sonnet-5.5), and
//  3. at every vendor, if the name states none.
//
// If only an older or shorter name of the same family is known, the result has the facts
// of that model without its price: a wrong price would make a limit on money useless.
func (c *Catalog) Find(q Query) (Model, bool) {
	if strings.HasPrefix(q.Model, "arn:") { // of an inference profile at Bedrock
		q.Model = q.Model[strings.LastIndexByte(q.Model, '/')+1:]
	}
	own := c.providersOf(q)
	vendor, bare := splitVendor(q.Model)
	for _, p := range own {
		if m, ok := p.find(q.Model); ok {
			return m, true
		}
	}
	vendors := c.vendors(vendor)
	for _, p := range slices.Concat(own, vendors) {
		if m, ok := p.find(bare); ok {
			return m, true
		}
	}
	if m, ok := family(own, q.Model); ok {
		return m, true
	}
	if m, ok := family(vendors, bare); ok {
		return m, true
	}
	if vendor != "" { // a router such as OpenRouter lists models of every vendor
		for _, p := range c.providers {
			if m, ok := p.find(q.Model); ok {
				m.Price = nil // every host sets its own
				return m, true
			}
		}
	}
	return Model{}, false
}

// Offers returns the models of the provider with the queried address or name.
func (c *Catalog) Offers(q Query) []Model {
	var out []Model
	for _, p := range c.providersOf(q) {
		out = append(out, p.models...)
	}
	return out
}

// providersOf returns the providers with the queried address, or else with the queried
// name.
func (c *Catalog) providersOf(q Query) []provider {
	host := hostOf(q.BaseURL)
	var out []provider
	for _, p := range c.providers {
		if p.host != "" && p.host == host {
			out = append(out, p)
		}
	}
	names := knownHosts(host)
	if len(out) == 0 && len(names) == 0 {
		names = []string{strings.ToLower(q.Provider)}
	}
	for _, p := range c.providers {
		if slices.Contains(names, p.id) && !slices.ContainsFunc(out, func(o provider) bool { return o.id == p.id }) {
			out = append(out, p)
		}
	}
	return out
}

// knownHosts returns the names, here and at models.dev, of providers whose entries have
// no address.
func knownHosts(host string) []string {
	for suffix, names := range map[string][]string{
		"api.anthropic.com":                 {"anthropic"},
		"api.openai.com":                    {"openai"},
		"generativelanguage.googleapis.com": {"gemini", "google"},
		"aiplatform.googleapis.com":         {"vertexai", "google-vertex", "google-vertex-anthropic"},
		".openai.azure.com":                 {"azure"},
		".services.ai.azure.com":            {"azure"},
		".amazonaws.com":                    {"bedrock", "bedrock-europe", "amazon-bedrock"},
		".api.aws":                          {"bedrock", "bedrock-europe", "amazon-bedrock"},
	} {
		if strings.HasSuffix(host, suffix) {
			return names
		}
	}
	return nil
}

// vendorNames maps the vendors in the names of models to the names of their own
// providers, here and at models.dev.
var vendorNames = map[string][]string{
	"anthropic":  {"anthropic"},
	"openai":     {"openai"},
	"google":     {"gemini", "google"},
	"gemini":     {"gemini", "google"},
	"x-ai":       {"xai"},
	"xai":        {"xai"},
	"deepseek":   {"deepseek"},
	"deepseekai": {"deepseek"},
	"z-ai":       {"zai", "zhipu"},
	"zai-org":    {"zai", "zhipu"},
	"moonshotai": {"moonshot", "moonshotai"},
	"minimax":    {"minimax"},
	"minimaxai":  {"minimax"},
	"qwen":       {"alibaba-singapore", "alibaba"},
	"mistralai":  {"mistral"},
	"mistral":    {"mistral"},
}

// vendors returns the own providers of a vendor, or of all vendors if it is "".
func (c *Catalog) vendors(vendor string) []provider {
	names := vendorNames[vendor]
	if vendor == "" {
		for _, v := range []string{"anthropic", "openai", "google", "xai", "deepseek", "z-ai", "moonshotai", "minimax", "qwen", "mistral"} {
			names = append(names, vendorNames[v]...)
		}
	}
	var out []provider
	for _, p := range c.providers {
		if slices.Contains(names, p.id) {
			out = append(out, p)
		}
	}
	return out
}

// splitVendor splits vendor/model, and Bedrock's region.vendor.model.
func splitVendor(name string) (vendor, model string) {
	name = strings.ToLower(strings.TrimPrefix(name, "models/")) // Gemini prefixes its names
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		vendor = name[:i]
		return vendor[strings.LastIndexByte(vendor, '/')+1:], name[i+1:]
	}
	if parts := strings.SplitN(name, ".", 3); len(parts) == 3 && vendorNames[parts[1]] != nil {
		return parts[1], parts[2]
	}
	if before, after, ok := strings.Cut(name, "."); ok && vendorNames[before] != nil {
		return before, after
	}
	return "", name
}

// sameModel matches the suffixes that do not turn a name into that of another model with
// another price: nothing, a date, a revision of Bedrock, or "latest".
var sameModel = lazyregexp.New(`^(-latest|-[0-9]{8}|-[0-9]{4}-[0-9]{2}-[0-9]{2}|-v[0-9]+(:[0-9]+)?)*$`)

// canonical makes spellings of one name equal: claude-sonnet-4.5, claude-sonnet-4-5, and, before
// a date, Vertex's @.
func canonical(name string) string { return separators.Replace(strings.ToLower(name)) }

var separators = strings.NewReplacer(".", "-", "@", "-")

// find returns the model with a name, or with the same name but for a date.
func (p provider) find(name string) (Model, bool) {
	if i, ok := slices.BinarySearchFunc(p.models, name, func(m Model, id string) int { return strings.Compare(m.ID, id) }); ok {
		return p.models[i], true
	}
	name = canonical(name)
	for i, known := range p.names {
		if rest, ok := strings.CutPrefix(name, known); ok && sameModel().MatchString(rest) {
			return p.models[i], true
		}
		if rest, ok := strings.CutPrefix(known, name); ok && sameModel().MatchString(rest) {
			return p.models[i], true
		}
	}
	return Model{}, false
}

// family returns the model whose name is the longest beginning of the given one, without
// its price.
func family(in []provider, name string) (best Model, found bool) {
	name = canonical(name)
	longest := 0
	for _, p := range in {
		for i, known := range p.names {
			if rest, ok := strings.CutPrefix(name, known); ok && strings.HasPrefix(rest, "-") && len(known) > longest {
				best, found, longest = p.models[i], true, len(known)
			}
		}
	}
	best.Price = nil
	return best, found
}
