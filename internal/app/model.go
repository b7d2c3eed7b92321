package app

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"sync"
	"time"

	"lilac/internal/foundation/fault"
	"lilac/internal/model/anthropic"
	"lilac/internal/model/demo"
	"lilac/internal/model/listing"
	"lilac/internal/model/llm"
	"lilac/internal/model/openai"
	"lilac/internal/model/responses"
	"lilac/internal/model/signing"
	"lilac/internal/operate/config"
)

// NewModel builds a model for a single use, outside of the running server.
func NewModel(choice config.ModelChoice) llm.Model { return newModel(choice, &llm.Registry{}) }

// ListModels asks a configured provider which models it offers.
func ListModels(ctx context.Context, cfg *config.Config, provider string) ([]listing.Model, error) {
	p, ok := cfg.Providers[provider]
	if !ok {
		return nil, fault.New(fault.NotFound, "There is no provider %s.", provider)
	}
	endpoint := listing.Endpoint{Anthropic: p.Type == config.Anthropic, BaseURL: p.BaseURL, Key: p.APIKey.Reveal(), Headers: config.ListHeader(cfg, provider)}
	if transport := signed(config.ModelChoice{Auth: p.Auth}); transport != nil {
		endpoint.Key, endpoint.Client = "", &http.Client{Transport: transport}
	}
	answer, err := listing.Ask(ctx, endpoint)
	switch {
	case err != nil:
		return nil, err
	case answer.Status == http.StatusUnauthorized || answer.Status == http.StatusForbidden:
		return nil, fault.New(fault.Unauthenticated, "%s does not accept the key. Check %s.", answer.Host, config.KeySetting(provider))
	case answer.Status != http.StatusOK:
		return nil, fault.New(fault.Unavailable, "%s lists no models: it answers with status %d%s.", answer.Host, answer.Status, colon(llm.Sentence(answer.Status, answer.Header, answer.Refusal)))
	case answer.List && len(answer.Models) == 0:
		return nil, fault.New(fault.NotFound, "%s offers no models. Load one into it; for Ollama: ollama pull NAME.", answer.Host)
	case len(answer.Models) == 0:
		return nil, fault.New(fault.Unavailable, "%s answers with something other than a list of models. Check the base URL of the provider.", answer.Host)
	}
	return answer.Models, nil
}

// colon puts a colon before a sentence, if there is one.
func colon(sentence string) string {
	if sentence == "" {
		return ""
	}
	return ": " + sentence
}

// newModel builds the model that the configuration chose. learned outlives changes of the
// configuration.
func newModel(choice config.ModelChoice, learned *llm.Registry) llm.Model {
	var price *llm.Price
	if p := choice.Price; p != nil {
		price = &llm.Price{Input: p.Input, Output: p.Output, CacheRead: p.CacheRead, CacheWrite: p.CacheWrite}
	}
	options := llm.Options{
		Provider: choice.Provider, BaseURL: choice.BaseURL, APIKey: choice.APIKey.Reveal(), KeySetting: choice.KeySetting(), Model: choice.Name,
		ContextUnknown: choice.ContextUnknown, ContextTokens: choice.ContextTokens, MaxOutputTokens: choice.MaxOutputTokens, Price: price, Images: choice.Images, PDFs: choice.Facts.PDFs, Audio: choice.Facts.Audio,
		Tuning: llm.Tuning{
			Effort: choice.Options.Effort, ThinkingTokens: choice.Options.ThinkingTokens,
			Temperature: choice.Options.Temperature, TopP: choice.Options.TopP,
		},
		FirstToken: time.Duration(choice.Options.FirstToken), Silence: time.Duration(choice.Options.Silence),
		Headers: choice.Headers, Body: body(choice.Options.Body),
		Learned: learned.Get(choice.BaseURL, choice.Name, string(choice.Type)+string(choice.API)),
		// The agent repeats failed calls visibly, between steps. Retries of the adapter
		// would multiply the attempts.
		Retry: llm.Retry{Max: -1},
	}
	if transport := signed(choice); transport != nil {
		options.APIKey, options.HTTPClient = "", &http.Client{Transport: transport}
	}
	switch choice.Type {
	case config.Anthropic:
		return findsWindow(anthropic.New(options), choice, options)
	case config.OpenAI:
		return findsWindow(newOpenAI(choice, options), choice, options)
	default:
		return demo.New(demo.Options{})
	}
}

// googleTokens keeps the access tokens of Google Cloud, which all models share.
var googleTokens = sync.OnceValue(func() http.RoundTripper { return &signing.Google{Base: http.DefaultTransport} })

// signed returns the transport that signs the calls of a model, or nil if it has a key.
func signed(choice config.ModelChoice) http.RoundTripper {
	switch choice.Auth {
	case config.AuthAWS:
		return &signing.AWS{Base: http.DefaultTransport, Now: time.Now, Credentials: func() signing.AWSCredentials { return signing.AWSFromEnv(os.Getenv) }}
	case config.AuthGoogle:
		return googleTokens()
	}
	return nil
}

// newOpenAI chooses between OpenAI's two APIs. The other one is used if the endpoint refuses
// the chosen one.
func newOpenAI(choice config.ModelChoice, options llm.Options) llm.Model {
	chat, stateless := openai.New(options), responses.New(options)
	if choice.API == config.APIResponses || choice.API == "" && llm.IsOpenAI(choice.BaseURL) {
		return llm.Alternative(stateless, chat, options.Learned)
	}
	return llm.Alternative(chat, stateless, options.Learned)
}

// body encodes the fields that the configuration adds to a request.
func body(configured map[string]any) map[string]json.RawMessage {
	out := make(map[string]json.RawMessage, len(configured))
	for name, value := range configured {
		if encoded, err := json.Marshal(value); err == nil { // always, for decoded YAML
			out[name] = encoded
		}
	}
	return out
}
