package openai

import (
	"net/url"
	"regexp"
	"strings"

	"lilac/internal/model/llm"
)

// DefaultBaseURL is OpenAI's own endpoint.
const DefaultBaseURL = "https://api.openai.com/v1"

// New returns a model behind a chat completions endpoint. It does no I/O and reports invalid
// options on the first call.
func New(o llm.Options) *llm.Adapter {
	o, endpoint := o.Endpoint("openai", "OpenAI")
	target := completionsURL(o.BaseURL)
	e := &encoder{o: o, url: target, own: llm.IsOpenAI(target)}
	return &llm.Adapter{Options: o, Endpoint: endpoint, URL: target, Encode: e.encode}
}

// encoder encodes the requests to one endpoint.
type encoder struct {
	o     llm.Options
	url   string
	own   bool // OpenAI's own endpoint, which renamed a field
	tools encodedTools
}

func (e *encoder) encode(req llm.Request, facts llm.Facts, change llm.Change) (llm.Call, llm.Sent, error) {
	body, sent, err := e.body(req, facts, change)
	return llm.Call{Header: e.o.HeaderWithKey(e.url), Body: body, Decoder: func(out *llm.Output) llm.Decoder {
		return newDecoder(out, body, req, e.o.Source(), e.o.Learned)
	}}, sent, err
}

var version = regexp.MustCompile(`/v[0-9][0-9a-z]*(/|$)`)

// completionsURL completes a base URL. It adds the version unless the path has one
// (Gemini's is in the middle), and returns a complete URL unchanged.
func completionsURL(base string) string {
	base = strings.TrimRight(strings.TrimSpace(base), "/")
	if base == "" {
		base = DefaultBaseURL
	}
	u, err := url.Parse(base)
	if err != nil {
		return base
	}
	switch {
	case strings.HasSuffix(u.Path, "/chat/completions"):
		return base
	case strings.Contains(u.Path, "/openai/deployments/"): // Azure's path has no version
	case !version.MatchString(u.Path):
		u.Path = strings.TrimRight(u.Path, "/") + "/v1"
	}
	u.Path = strings.TrimRight(u.Path, "/") + "/chat/completions"
	return u.String()
}
