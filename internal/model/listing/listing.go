package listing

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/order"
	"lilac/internal/foundation/setting"
)

const (
	// maxList bounds the size of a list, in bytes. OpenRouter's has less than 1 MiB.
	maxList = 4 << 20
	// maxModels bounds the number of models of one endpoint.
	maxModels = 10_000
	// maxRefusal bounds how much of a refusal is read, in bytes.
	maxRefusal = 64 << 10
)

// An Endpoint is an address that offers models.
type Endpoint struct {
	// Anthropic selects Anthropic's protocol instead of OpenAI's.
	Anthropic bool
	BaseURL   string
	Key       string
	// Headers are sent in addition.
	Headers http.Header
	// Client makes the call; nil means the default client.
	Client *http.Client
}

// A Model is one that the endpoint offers. Zero values are unknown.
type Model struct {
	ID, Name                       string
	ContextTokens, MaxOutputTokens int
}

// An Answer is the response of an endpoint.
type Answer struct {
	// Host is the host that answered.
	Host   string
	Status int
	// Date is the time at the host, or the zero time.
	Date time.Time
	// Models is sorted by ID. It is empty unless Status is 200 and the body is a list.
	Models []Model
	// List reports that the body is a list. That of a new Ollama is empty.
	List bool
	// Header is that of the response, and Refusal the body of one that is no list, without the key.
	Header  http.Header
	Refusal []byte
}

// Has reports whether the endpoint offers a model, perhaps under a name with a date, or with the tag
// that Ollama adds to names without one.
func (a Answer) Has(name string) bool {
	return slices.ContainsFunc(a.Models, func(m Model) bool {
		return m.ID == name || m.ID == name+":latest" || strings.HasPrefix(m.ID, name+"-2") || strings.HasPrefix(name, m.ID) && strings.HasSuffix(name, "-latest")
	})
}

// Ask asks an endpoint for its models. The error is one of the connection; a refusal is
// an answer with its status.
func Ask(ctx context.Context, e Endpoint) (Answer, error) {
	target, err := e.url()
	if err != nil {
		return Answer{}, fault.Wrap(fault.Invalid, err, "The base URL %q is not a URL.", e.BaseURL)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return Answer{}, fault.Wrap(fault.Invalid, err, "The base URL %q is not a URL.", e.BaseURL)
	}
	if e.Headers != nil {
		req.Header = e.Headers.Clone()
	}
	e.authorize(req)
	res, err := e.client().Do(req)
	if err != nil {
		var f *fault.Error
		if errors.As(err, &f) {
			return Answer{}, f // the transport could not sign the request
		}
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err // without the URL
		}
		return Answer{}, fault.Wrap(fault.Unavailable, err, "Lilac cannot reach %s: %v", req.URL.Host, err)
	}
	defer func() { _ = res.Body.Close() }() // it was only read
	out := Answer{Host: req.URL.Host, Status: res.StatusCode, Header: res.Header}
	out.Date, _ = http.ParseTime(res.Header.Get("Date")) // zero if there is none
	if res.StatusCode != http.StatusOK {
		out.Refusal, _ = io.ReadAll(io.LimitReader(res.Body, maxRefusal)) // a cut body says enough
		out.Refusal = []byte(setting.Hide(string(out.Refusal), e.Key, e.Headers))
		return out, nil
	}
	data, err := io.ReadAll(io.LimitReader(res.Body, maxList))
	if err != nil {
		return out, fault.Wrap(fault.Unavailable, err, "%s broke off its list of models.", req.URL.Host)
	}
	out.Models, out.List = parse(data)
	return out, nil
}

func (e Endpoint) url() (string, error) {
	u, err := url.Parse(strings.TrimRight(strings.TrimSpace(e.BaseURL), "/"))
	if err != nil || u.Host == "" {
		return "", cmp.Or(err, fmt.Errorf("no host"))
	}
	for _, end := range []string{"/chat/completions", "/responses", "/messages"} {
		u.Path = strings.TrimSuffix(u.Path, end)
	}
	if e.Anthropic {
		u.Path = strings.TrimSuffix(u.Path, "/v1") + "/v1/models"
		u.RawQuery = "limit=1000"
		return u.String(), nil
	}
	if u.Path == "" {
		u.Path = "/v1"
	}
	u.Path += "/models"
	return u.String(), nil
}

func (e Endpoint) client() *http.Client {
	client := http.Client{}
	if e.Client != nil {
		client = *e.Client
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &client
}

func (e Endpoint) authorize(req *http.Request) {
	if e.Anthropic {
		req.Header.Set("Anthropic-Version", "2023-06-01")
	}
	switch host := req.URL.Hostname(); {
	case e.Key == "" || req.Header.Get("Authorization") != "":
	case e.Anthropic:
		req.Header.Set("X-Api-Key", e.Key)
	case strings.HasSuffix(host, ".azure.com") || strings.HasSuffix(host, ".azure-api.net"):
		req.Header.Set("Api-Key", e.Key)
	default:
		req.Header.Set("Authorization", "Bearer "+e.Key)
	}
}

// parse reads a list in the shapes of the hosts: {"data": [{"id"}]}, {"models":
// [{"name"}]}, or a bare list, and reports whether it is one. Ollama's list is null without models.
func parse(data []byte) (out []Model, isList bool) {
	var outer struct{ Data, Models json.RawMessage }
	list := json.RawMessage(data)
	if json.Unmarshal(data, &outer) == nil {
		list = outer.Data
		if len(list) == 0 || string(list) == "null" && len(outer.Models) > 0 {
			list = outer.Models
		}
	}
	var entries []map[string]json.RawMessage
	if json.Unmarshal(list, &entries) != nil {
		return nil, false
	}
	for _, fields := range entries[:min(len(entries), maxModels)] {
		if m := parseModel(fields); m.ID != "" {
			out = append(out, m)
		}
	}
	order.By(out, func(a, b Model) int { return strings.Compare(a.ID, b.ID) })
	return slices.CompactFunc(out, func(a, b Model) bool { return a.ID == b.ID }), true
}

func parseModel(fields map[string]json.RawMessage) Model {
	m := Model{
		ID:   strings.TrimPrefix(firstText(fields, "id", "model", "name"), "models/"), // Gemini prefixes its names
		Name: firstText(fields, "display_name", "displayName", "name"),
		ContextTokens: firstNumber(fields, "context_length", "context_window", "max_model_len", "max_context_length",
			"max_input_tokens", "inputTokenLimit", "context_size"),
		MaxOutputTokens: firstNumber(fields, "max_completion_tokens", "max_output_tokens", "max_tokens", "outputTokenLimit"),
	}
	// OpenRouter states the limits of the host that it prefers, and llama.cpp those of the
	// loaded model, one level down.
	for _, name := range []string{"top_provider", "meta"} {
		var inner map[string]json.RawMessage
		if json.Unmarshal(fields[name], &inner) == nil {
			m.ContextTokens = cmp.Or(m.ContextTokens, firstNumber(inner, "context_length", "n_ctx"))
			m.MaxOutputTokens = cmp.Or(m.MaxOutputTokens, firstNumber(inner, "max_completion_tokens"))
		}
	}
	return m
}

func firstText(fields map[string]json.RawMessage, names ...string) string {
	for _, name := range names {
		var s string
		if json.Unmarshal(fields[name], &s) == nil && s != "" {
			return s
		}
	}
	return ""
}

// firstNumber also reads numbers in quotes. Numbers that are no size of a window count as
// absent.
func firstNumber(fields map[string]json.RawMessage, names ...string) int {
	for _, name := range names {
		n, err := strconv.ParseFloat(strings.Trim(string(fields[name]), `"`), 64)
		if err == nil && n >= 1 && n <= 1e9 {
			return int(n)
		}
	}
	return 0
}
