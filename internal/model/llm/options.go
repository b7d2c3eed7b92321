package llm

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Options configures a model behind HTTP. Only Model is required.
type Options struct {
	// Provider is the configured name; empty means the vendor of the protocol.
	Provider string
	// BaseURL may end in the version; empty means the vendor's endpoint.
	BaseURL string
	// APIKey may be empty if BaseURL is set: a gateway may hold the key, and Ollama needs
	// none.
	APIKey string
	// KeySetting is named in the error of a missing or wrong key.
	KeySetting string
	Model      string

	ContextTokens int
	// ContextUnknown means that ContextTokens is a guess, which a size that the endpoint
	// reports replaces.
	ContextUnknown  bool
	MaxOutputTokens int
	// Images means that the model accepts images.
	Images bool
	// PDFs means that the model accepts PDF documents, Audio that it accepts recordings.
	PDFs, Audio bool
	Price       *Price
	// Body holds further fields of the request. They win over Lilac's own.
	Body map[string]json.RawMessage
	// Headers holds further headers of the request.
	Headers http.Header
	// Tuning holds the sampling and thinking options.
	Tuning Tuning

	HTTPClient *http.Client
	Retry      Retry
	// FirstToken and Silence bound how long the provider may send nothing; see [Endpoint].
	FirstToken, Silence time.Duration
	// Learned keeps what the endpoint's refusals teach; nil means a record of its own.
	Learned *Learned
}

// Tuning holds the options of a model's answers. Zero values leave the choice to the
// provider.
type Tuning struct {
	// Effort is how much the model thinks: none, minimal, low, medium, high, or xhigh.
	Effort string
	// ThinkingTokens is the budget for thinking.
	ThinkingTokens    int
	Temperature, TopP *float64
}

// Endpoint completes the options and returns them with the endpoint that they describe.
// provider is the configured name of the protocol's vendor.
func (o Options) Endpoint(provider, vendor string) (Options, *Endpoint) {
	switch u, err := url.Parse(o.BaseURL); {
	case o.Provider == "":
		o.Provider = provider
	case o.Provider != provider:
		vendor = o.Provider
	case err == nil && u.Host != "" && !strings.HasSuffix(u.Hostname(), "."+provider+".com"):
		vendor = u.Host // another server, such as the Ollama that OPENAI_BASE_URL names
	}
	if o.Learned == nil {
		o.Learned = &Learned{}
	}
	o.APIKey = strings.TrimSpace(o.APIKey) // a key from a file often ends in a newline
	return o, &Endpoint{
		Vendor: vendor, Model: o.Model, Setting: o.KeySetting, Key: o.APIKey, Headers: o.Headers,
		Client: o.HTTPClient, FirstToken: o.FirstToken, Silence: o.Silence,
	}
}

// Header returns the headers of a request, without the key.
func (o Options) Header() http.Header {
	if o.Headers == nil {
		return http.Header{}
	}
	return o.Headers.Clone()
}

// OutputLimit returns how many tokens an answer may have: at most the limits that the endpoint
// stated. 0 means that the options have no limit.
func (o Options) OutputLimit(req Request, facts Facts, change Change) int {
	limit := cmp.Or(req.MaxOutputTokens, o.MaxOutputTokens)
	for _, most := range []int{facts.MaxOutputTokens, change.MaxOutputTokens} {
		if most > 0 {
			limit = min(limit, most)
		}
	}
	return limit
}

// Accepted says which media a model accepts.
type Accepted struct{ Images, PDFs, Audio bool }

// Accepted returns the media that the model accepts, unless the endpoint refused them.
func (o Options) Accepted(facts Facts) Accepted {
	if facts.NoMedia {
		return Accepted{}
	}
	return Accepted{Images: o.Images, PDFs: o.PDFs, Audio: o.Audio}
}

// SetSampling adds the sampling options to the body of a request. All protocols name them alike.
func SetSampling[O ~map[string]any](body O, t Tuning) {
	if t.Temperature != nil {
		body["temperature"] = *t.Temperature
	}
	if t.TopP != nil {
		body["top_p"] = *t.TopP
	}
}

// Info describes the model, with the limits that its endpoint reported.
func (o Options) Info() Info {
	info := Info{
		Provider: o.Provider, Name: o.Model, ContextTokens: o.ContextTokens,
		MaxOutputTokens: o.MaxOutputTokens, Images: o.Images, Audio: o.Audio, Price: o.Price,
		Effort: o.Tuning.Effort,
	}
	if o.Learned == nil {
		return info
	}
	facts := o.Learned.Facts()
	if n := facts.ContextTokens; n > 0 && (o.ContextUnknown || o.ContextTokens == 0 || n < o.ContextTokens) {
		info.ContextTokens = n
	}
	if n := facts.MaxOutputTokens; n > 0 && (info.MaxOutputTokens == 0 || n < info.MaxOutputTokens) {
		info.MaxOutputTokens = n
	}
	info.Images, info.Audio = info.Images && !facts.NoMedia, info.Audio && !facts.NoMedia
	return info
}

// Source names the provider and the model family, for example
// "openrouter@openrouter.ai/claude". Provider data goes back only to the source that made
// it: signatures of one model are invalid for another one.
func (o Options) Source() string {
	host := ""
	if u, err := url.Parse(o.BaseURL); err == nil {
		host = u.Hostname()
	}
	return o.Provider + "@" + host + "/" + Family(o.Model)
}

// IsOpenAI reports whether a base URL is one of OpenAI's own endpoints: api.openai.com, or that
// of a region, such as eu.api.openai.com.
func IsOpenAI(baseURL string) bool {
	u, err := url.Parse(baseURL)
	return err == nil && u.Scheme == "https" && (u.Hostname() == "api.openai.com" || strings.HasSuffix(u.Hostname(), ".api.openai.com"))
}

// Family returns the family of a model: the letters that its name begins with, without
// the names of vendors and regions before it (anthropic/claude, eu.anthropic.claude).
func Family(model string) string {
	name := strings.ToLower(model[strings.LastIndexByte(model, '/')+1:])
	for {
		before, after, found := strings.Cut(name, ".")
		if !found || len(after) < 2 || !isLetter(rune(after[0])) || !isLetter(rune(after[1])) || strings.ContainsFunc(before, func(r rune) bool { return !isLetter(r) && r != '-' }) {
			break
		}
		name = after
	}
	end := strings.IndexFunc(name, func(r rune) bool { return !isLetter(r) })
	if end < 0 {
		end = len(name)
	}
	if end == 1 && name[0] == 'o' {
		return "gpt" // o1, o3, and o4 are OpenAI's, like gpt-5
	}
	return name[:end]
}

func isLetter(r rune) bool { return r >= 'a' && r <= 'z' }
