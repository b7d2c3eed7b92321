package listing

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"lilac/internal/foundation/lazyregexp"
)

// maxDescription bounds the description of one model, in bytes.
const maxDescription = 4 << 20

// Sizes are those of a model's context window and of its longest answer, in tokens; 0 means unknown.
type Sizes struct {
	ContextTokens, MaxOutputTokens int
	// Ollama means that the server is Ollama, which silently cuts longer prompts; see [Loaded].
	Ollama bool
}

// Window asks an endpoint for the sizes of a model. It asks the list of models first, and then the routes of
// llama.cpp (GET /props), Ollama (POST /api/show, GET /api/ps, POST /api/generate, which loads the
// model), LM Studio (GET /api/v0/models), and TGI (GET /info).
func Window(ctx context.Context, e Endpoint, model string) (s Sizes) {
	limited, cancel := context.WithTimeout(ctx, describeTime)
	defer cancel()
	answer, err := Ask(limited, e)
	if err != nil || answer.Status != http.StatusOK {
		return s
	}
	for _, m := range answer.Models {
		if m.ID == model {
			s.ContextTokens, s.MaxOutputTokens = m.ContextTokens, m.MaxOutputTokens
		}
	}
	if !answer.Has(model) && s.ContextTokens == 0 && len(answer.Models) > 1 {
		return s
	}
	ollama := func(ctx context.Context, e Endpoint, model string) int {
		n := ollamaWindow(ctx, e, model)
		s.Ollama = n > 0
		return n
	}
	// The size of the loaded model is smaller than the one that the model could have.
	for _, ask := range []func(context.Context, Endpoint, string) int{propsWindow, ollama, studioWindow, infoWindow} {
		if s.ContextTokens > 0 {
			break
		}
		s.ContextTokens = ask(ctx, e, model)
	}
	return s
}

// Loaded returns the size of the window with which Ollama has loaded a model, or 0. Somebody may have
// started Ollama again with another one, or another program may have loaded the model with its own.
func Loaded(ctx context.Context, e Endpoint, model string) int {
	return loadedWindow(ctx, e, func(m ollamaModel) bool { return m.Name == model || m.Name == model+":latest" })
}

// propsWindow returns the size of the loaded model of llama.cpp's server.
func propsWindow(ctx context.Context, e Endpoint, _ string) int {
	var props struct {
		Settings map[string]json.RawMessage `json:"default_generation_settings"`
	}
	e.describe(ctx, http.MethodGet, "/props", nil, &props)
	return firstNumber(props.Settings, "n_ctx")
}

// ollamaWindow returns the size with which Ollama runs the model, and makes Ollama load it. Ollama
// silently cuts longer prompts, so the size that the model could have does not count.
func ollamaWindow(ctx context.Context, e Endpoint, model string) int {
	var show struct {
		Parameters string
		Details    ollamaDetails
		ModelInfo  map[string]json.RawMessage `json:"model_info"`
	}
	e.describe(ctx, http.MethodPost, "/api/show", map[string]string{"model": model}, &show)
	if m := numCtx().FindStringSubmatch(show.Parameters); m != nil {
		n, _ := strconv.Atoi(m[1]) // 0 if it is too large
		return n
	}
	if len(show.ModelInfo) == 0 { // it is not Ollama, or does not have the model
		return 0
	}
	// A request without a prompt loads the model, which the next call would have to wait for anyway, also if
	// another program has loaded it with a window of its own. With OLLAMA_KEEP_ALIVE=0, it would be gone before
	// the question.
	var done map[string]json.RawMessage
	e.ask(ctx, loadTime, http.MethodPost, "/api/generate", map[string]any{"model": model, "stream": false, "keep_alive": "1m"}, &done)
	if n := Loaded(ctx, e, model); n > 0 || done == nil {
		return n
	}
	// Ollama lists models that have the same weights under one of their names. The one that was used last
	// comes first.
	return loadedWindow(ctx, e, func(m ollamaModel) bool { return m.Details == show.Details })
}

// ollamaModel is a model that Ollama has loaded, and ollamaDetails what it says of its weights.
type (
	ollamaModel struct {
		Name    string
		Details ollamaDetails
		Window  int `json:"context_length"`
	}
	ollamaDetails struct {
		Family       string
		Size         string `json:"parameter_size"`
		Quantization string `json:"quantization_level"`
	}
)

// loadedWindow returns the size with which Ollama has loaded the first model that matches, or 0.
func loadedWindow(ctx context.Context, e Endpoint, matches func(ollamaModel) bool) int {
	var loaded struct{ Models []ollamaModel }
	e.describe(ctx, http.MethodGet, "/api/ps", nil, &loaded)
	if i := slices.IndexFunc(loaded.Models, matches); i >= 0 {
		return loaded.Models[i].Window
	}
	return 0
}

// studioWindow returns the size with which LM Studio runs the model.
func studioWindow(ctx context.Context, e Endpoint, model string) int {
	var list struct {
		Data []map[string]json.RawMessage `json:"data"`
	}
	e.describe(ctx, http.MethodGet, "/api/v0/models", nil, &list)
	for _, m := range list.Data {
		if firstText(m, "id") == model {
			return firstNumber(m, "loaded_context_length")
		}
	}
	return 0
}

// infoWindow returns the size of the model of Text Generation Inference.
func infoWindow(ctx context.Context, e Endpoint, _ string) int {
	var info map[string]json.RawMessage
	e.describe(ctx, http.MethodGet, "/info", nil, &info)
	return firstNumber(info, "max_total_tokens", "max_input_tokens", "max_input_length")
}

var numCtx = lazyregexp.New(`(?m)^num_ctx\s+([0-9]+)`)

var versionPath = regexp.MustCompile(`/v[0-9][0-9a-z]*(/.*)?$`)

const (
	// describeTime bounds a question about a model, and loadTime the time in which a server loads it.
	describeTime = 3 * time.Second
	loadTime     = 2 * time.Minute
)

// describe asks a route beside the versioned ones, and decodes the answer if there is one.
func (e Endpoint) describe(ctx context.Context, method, path string, body, into any) {
	e.ask(ctx, describeTime, method, path, body, into)
}

// ask is like describe, and waits for a time.
func (e Endpoint) ask(ctx context.Context, limit time.Duration, method, path string, body, into any) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	u, err := url.Parse(strings.TrimRight(strings.TrimSpace(e.BaseURL), "/"))
	if err != nil {
		return
	}
	u.Path = versionPath.ReplaceAllString(u.Path, "") + path
	var sent io.Reader
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return
		}
		sent = bytes.NewReader(encoded)
	}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), sent)
	if err != nil {
		return
	}
	if e.Headers != nil {
		req.Header = e.Headers.Clone()
	}
	e.authorize(req)
	res, err := e.client().Do(req)
	if err != nil {
		return
	}
	defer func() { _ = res.Body.Close() }() // it was only read
	if res.StatusCode == http.StatusOK {
		_ = json.NewDecoder(io.LimitReader(res.Body, maxDescription)).Decode(into) // unknown if it is something else
	}
}
