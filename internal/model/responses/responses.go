package responses

import (
	"net/url"
	"regexp"
	"strings"

	"lilac/internal/model/llm"
)

// DefaultBaseURL is OpenAI's own endpoint.
const DefaultBaseURL = "https://api.openai.com/v1"

// New returns a model behind a Responses endpoint. It does no I/O and reports invalid options on
// the first call.
func New(o llm.Options) *llm.Adapter {
	o, endpoint := o.Endpoint("openai", "OpenAI")
	o.Audio = false // the protocol has no part for recordings
	e := &encoder{o: o, url: responsesURL(o.BaseURL)}
	return &llm.Adapter{Options: o, Endpoint: endpoint, URL: e.url, Encode: e.encode}
}

// encoder encodes the requests to one endpoint.
type encoder struct {
	o   llm.Options
	url string
}

func (e *encoder) encode(req llm.Request, facts llm.Facts, change llm.Change) (llm.Call, llm.Sent, error) {
	body, sent, err := e.body(req, facts, change)
	return llm.Call{Header: e.o.HeaderWithKey(e.url), Body: body, Decoder: func(out *llm.Output) llm.Decoder {
		return &decoder{out: out, source: e.o.Source()}
	}}, sent, err
}

var version = regexp.MustCompile(`/v[0-9][0-9a-z]*(/|$)`)

// responsesURL completes a base URL. It adds the version unless the path has one, and
// returns a complete URL unchanged.
func responsesURL(base string) string {
	base = strings.TrimRight(strings.TrimSpace(base), "/")
	if base == "" {
		base = DefaultBaseURL
	}
	u, err := url.Parse(base)
	if err != nil || strings.HasSuffix(u.Path, "/responses") {
		return base
	}
	u.Path = strings.TrimSuffix(u.Path, "/chat/completions")
	if before, _, found := strings.Cut(u.Path, "/deployments/"); found { // Azure names the model in the body
		u.Path = before + "/responses"
		return u.String()
	}
	if !version.MatchString(u.Path) {
		u.Path += "/v1"
	}
	u.Path += "/responses"
	return u.String()
}
