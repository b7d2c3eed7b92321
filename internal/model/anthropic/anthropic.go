package anthropic

import (
	"net/http"
	"net/url"
	"strings"

	"lilac/internal/model/llm"
)

// DefaultBaseURL is Anthropic's own endpoint.
const DefaultBaseURL = "https://api.anthropic.com"

const (
	apiVersion = "2023-06-01"
	// vertexVersion takes the place of the version and the model in bodies for Vertex.
	vertexVersion = "vertex-2023-10-16"
	// defaultMaxOutput is used if nothing is configured, because the protocol requires
	// a limit.
	defaultMaxOutput = 8192
)

// New returns a model behind a Messages endpoint. It does no I/O and reports invalid options on the
// first call.
func New(o llm.Options) *llm.Adapter {
	o, endpoint := o.Endpoint(provider, "Anthropic")
	if o.MaxOutputTokens <= 0 {
		o.MaxOutputTokens = defaultMaxOutput
	}
	o.Audio = false // the protocol has no part for recordings
	target, vertex := vertexURL(o.BaseURL, o.Model)
	if !vertex {
		target = messagesURL(o.BaseURL)
	}
	e := &encoder{o: o, vertex: vertex}
	return &llm.Adapter{Options: o, Endpoint: endpoint, URL: target, Encode: e.encode}
}

// encoder encodes the requests to one endpoint.
type encoder struct {
	o      llm.Options
	vertex bool // Google's endpoint, which names the model in its address
}

func (e *encoder) encode(req llm.Request, facts llm.Facts, change llm.Change) (llm.Call, llm.Sent, error) {
	body, prefix, sent, err := e.body(req, facts, change)
	return llm.Call{Header: e.header(), Body: body, Decoder: func(out *llm.Output) llm.Decoder {
		return &decoder{out: out, source: e.o.Source(), prefix: prefix}
	}}, sent, err
}

func (e *encoder) header() http.Header {
	header := e.o.Header()
	if header.Get("Anthropic-Version") == "" && !e.vertex {
		header.Set("Anthropic-Version", apiVersion)
	}
	if e.o.APIKey != "" && header.Get("Authorization") == "" {
		header.Set("X-Api-Key", e.o.APIKey)
	}
	return header
}

// vertexURL returns the address of a model of Anthropic at Google Vertex: base is that of a
// project and a location. ok is false for every other address.
func vertexURL(base, model string) (target string, ok bool) {
	u, err := url.Parse(strings.TrimRight(strings.TrimSpace(base), "/"))
	if err != nil || !strings.HasSuffix(u.Hostname(), "aiplatform.googleapis.com") {
		return "", false
	}
	before, _, _ := strings.Cut(u.Path, "/publishers/")
	u.Path = before + "/publishers/anthropic/models/" + strings.TrimPrefix(model, "anthropic/") + ":streamRawPredict"
	return u.String(), true
}

func messagesURL(base string) string {
	base = strings.TrimRight(strings.TrimSpace(base), "/")
	if base == "" {
		base = DefaultBaseURL
	}
	if strings.HasSuffix(base, "/messages") {
		return base
	}
	return strings.TrimSuffix(base, "/v1") + "/v1/messages"
}
