package llm

import (
	"encoding/json"
	"net/http"
	"time"
)

// Options of a model behind HTTP; only Model is required.
type Options struct {
	// Provider is the configured name, that of the protocol's vendor when empty.
	Provider string
	// BaseURL may end in the version or not; empty means the vendor's own.
	BaseURL string
	// APIKey may be empty when BaseURL is set: a gateway may hold the key, and
	// Ollama wants none.
	APIKey string
	// KeySetting is named when the key is missing or wrong.
	KeySetting string
	Model      string

	ContextTokens   int
	MaxOutputTokens int
	// Images says that the model sees images.
	Images bool
	Price  *Price
	// Body holds further fields of the request.
	Body map[string]json.RawMessage

	HTTPClient *http.Client
	Retry      Retry
	// Idle is how long the stream may be silent; see [Endpoint].
	Idle time.Duration
}

// Endpoint completes the options for a protocol whose vendor is called provider in
// the configuration, and returns with them how the model is called.
func (o Options) Endpoint(provider, vendor string) (Options, *Endpoint) {
	if o.Provider == "" {
		o.Provider = provider
	}
	if o.Provider != provider {
		vendor = o.Provider
	}
	return o, &Endpoint{
		Vendor: vendor, Model: o.Model, Setting: o.KeySetting, Key: o.APIKey,
		Client: o.HTTPClient, Idle: o.Idle,
	}
}

// Info describes the model.
func (o Options) Info() Info {
	return Info{
		Provider: o.Provider, Name: o.Model, ContextTokens: o.ContextTokens,
		MaxOutputTokens: o.MaxOutputTokens, Images: o.Images, Price: o.Price,
	}
}
