package doctor

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"

	"lilac/internal/model/listing"
	"lilac/internal/model/llm"
	"lilac/internal/operate/config"
)

const (
	// reachTimeout bounds the connection test to the model's host; askTimeout bounds a request.
	reachTimeout = 3 * time.Second
	askTimeout   = 15 * time.Second
	// maxSkew is the tolerated difference between the local clock and the provider's. A larger one
	// breaks signatures and time limits.
	maxSkew = 30 * time.Second
)

// keys checks that the configured API keys are plausible. Otherwise, the first user request would
// reveal a wrong key.
func (p Patient) keys() Finding {
	var set []string
	for _, name := range slices.Sorted(maps.Keys(p.Config.Providers)) {
		provider := p.Config.Providers[name]
		if !provider.APIKey.Set() {
			continue
		}
		set = append(set, name)
		if wrong := malformed(provider.APIKey.Reveal()); wrong != "" {
			return Finding{"keys", Warn, fmt.Sprintf("the key of %s %s", name, wrong), "Copy the key again from the provider, without quotes or spaces."}
		}
		if want := prefixes[provider.BaseURL]; want != "" && !strings.HasPrefix(provider.APIKey.Reveal(), want) {
			return Finding{"keys", Warn, fmt.Sprintf("the key of %s does not start with %s, as its keys do", name, want), "Check whether it is the key of another provider."}
		}
	}
	if len(set) == 0 {
		return Finding{"keys", OK, "none is set", ""}
	}
	return Finding{"keys", OK, "set for " + strings.Join(set, ", "), ""}
}

// prefixes maps base URLs to the documented prefix of the provider's API keys.
var prefixes = map[string]string{"https://api.anthropic.com": "sk-ant-", "https://api.openai.com/v1": "sk-"}

func malformed(key string) string {
	switch lower := strings.ToLower(key); {
	case strings.ContainsFunc(key, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) || r > unicode.MaxASCII }):
		return "holds a space or a character that no key has"
	case strings.ContainsAny(key, "\"'`<>"):
		return "holds a quote or a bracket"
	case strings.Contains(lower, "your") || strings.Contains(lower, "changeme") || strings.Trim(lower, "x.") == "":
		return "is a placeholder"
	}
	return ""
}

// model checks the model that answers: its settings, and whether its host is reachable.
func (p Patient) model(ctx context.Context) []Finding {
	m, err := p.Config.ResolveModel()
	if err != nil {
		return []Finding{{"model", Fail, says(err), "Set the key, or choose another model."}}
	}
	if m.Type == config.Demo {
		return []Finding{{"model", OK, "the built-in demo (" + m.Why + ")", "To use a real model, run lilac setup."}}
	}
	if p.Online {
		return p.ask(ctx, m)
	}
	if f := reach(ctx, m); f != nil {
		return []Finding{*f}
	}
	return []Finding{known(m, described(m))}
}

func described(m config.ModelChoice) string {
	context := fmt.Sprintf("%d tokens of context", m.ContextTokens)
	if m.ContextUnknown {
		context = "unknown size of the context"
	}
	return fmt.Sprintf("%s (%s), %s", m, m.Why, context)
}

func known(m config.ModelChoice, message string) Finding {
	if m.Price == nil {
		return Finding{"model", Warn, message + "; unknown price", fmt.Sprintf("To count and limit money, set models: {%q: {contextTokens: …, price: {input: …, output: …}}}.", m.String())}
	}
	return Finding{"model", OK, message, ""}
}

func reach(ctx context.Context, m config.ModelChoice) *Finding {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, m.BaseURL, nil)
	if err != nil {
		return &Finding{"model", Fail, m.String() + ": invalid base URL", "Check providers." + m.Provider + ".baseURL."}
	}
	res, err := http.DefaultTransport.RoundTrip(req) // as the calls: through the proxy of the network
	if err != nil {
		return &Finding{"model", Warn, fmt.Sprintf("%s: cannot reach %s: %v", m, req.URL.Host, err), "Check the network, providers." + m.Provider + ".baseURL, and HTTPS_PROXY."}
	}
	_ = res.Body.Close() // any answer will do
	return nil
}

// ask lists the provider's models, which shows whether the provider accepts the API key, offers the
// model, and agrees about the time. Then it makes one real call of the model with a tool.
func (p Patient) ask(ctx context.Context, m config.ModelChoice) []Finding {
	if m.Auth == config.AuthAWS || m.Auth == config.AuthGoogle {
		// A list needs a signature as well; the call shows whether the credentials work.
		out := []Finding{known(m, described(m))}
		if p.Try != nil {
			out = append(out, p.call(m))
		}
		return out
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	endpoint := listing.Endpoint{Anthropic: m.Type == config.Anthropic, BaseURL: m.BaseURL, Key: m.APIKey.Reveal(), Headers: m.Headers}
	answer, err := listing.Ask(ctx, endpoint)
	if err != nil {
		return []Finding{{"model", Fail, fmt.Sprintf("%s: %s", m, says(err)), "Check the network, providers." + m.Provider + ".baseURL, and HTTPS_PROXY."}}
	}
	if m.ContextUnknown {
		if window := listing.Window(ctx, endpoint, m.Name).ContextTokens; window > 0 {
			m.ContextTokens, m.ContextUnknown = window, false
		}
	}
	listed := listedModel(answer, m, described(m))
	out := []Finding{listed}
	if !m.ContextUnknown && m.ContextTokens < llm.SmallWindow {
		out = append(out, Finding{"model window", Warn, fmt.Sprintf("a window of %d tokens is small: the agent's instructions and tools take about 5000 of them", m.ContextTokens), llm.SmallWindowAdvice})
	}
	if f, ok := p.skew(answer); ok {
		out = append(out, f)
	}
	if listed.Status == Fail || p.Try == nil {
		return out
	}
	return append(out, p.call(m))
}

func listedModel(answer listing.Answer, m config.ModelChoice, message string) Finding {
	switch {
	case answer.Status == http.StatusUnauthorized || answer.Status == http.StatusForbidden:
		return Finding{"model", Fail, fmt.Sprintf("%s: %s rejects the key (%d %s)", m, answer.Host, answer.Status, http.StatusText(answer.Status)), "Set a valid key: " + m.KeySetting() + "."}
	case answer.Status == http.StatusNotFound || answer.Status == http.StatusMethodNotAllowed:
		return known(m, message+"; it is reached, and tells no list of models")
	case answer.Status >= 400 && answer.Status < 500 && answer.Status != http.StatusTooManyRequests:
		return Finding{"model", Warn, strings.TrimSuffix(fmt.Sprintf("%s: %s answers %d %s: %s", m, answer.Host, answer.Status, http.StatusText(answer.Status), llm.Sentence(answer.Status, answer.Header, answer.Refusal)), ": "), fmt.Sprintf("Check providers.%s.baseURL. If the host wants headers of its own, set providers.%[1]s.headers.", m.Provider)}
	case answer.Status != http.StatusOK:
		return Finding{"model", Warn, fmt.Sprintf("%s: %s answers %d %s", m, answer.Host, answer.Status, http.StatusText(answer.Status)), "Try again later, and check the provider's status page."}
	case answer.List && len(answer.Models) == 0:
		return Finding{"model", Warn, fmt.Sprintf("%s: %s offers no models", m, answer.Host), "Load the model into the server; for Ollama: ollama pull " + m.Name + "."}
	case len(answer.Models) == 0:
		return known(m, message+"; the key is taken")
	case answer.Has(m.Name):
		return known(m, message+"; the key is taken and the model is there")
	}
	return Finding{"model", Warn, fmt.Sprintf("%s: the key is valid, but the provider does not list this model", m), "Check the name of the model. It may have been retired. \"lilac models\" lists what there is."}
}

// call makes a real call of the model with a tool.
func (p Patient) call(m config.ModelChoice) Finding {
	report := p.Try(m)
	if failed, ok := report.First(); ok {
		return Finding{"model call", Fail, fmt.Sprintf("%s: %s", m, failed.Detail), "\"lilac models test " + m.String() + "\" shows each part of the call."}
	}
	return Finding{"model call", OK, "the model called a tool and understood its result", ""}
}

// skew compares the local clock with the Date header of the response.
func (p Patient) skew(answer listing.Answer) (Finding, bool) {
	if answer.Date.IsZero() {
		return Finding{}, false
	}
	off := p.Now().Sub(answer.Date).Round(time.Second)
	if off.Abs() > maxSkew {
		return Finding{"clock skew", Warn, fmt.Sprintf("the clock differs by %s from that of %s", off, answer.Host), "Synchronize the clock with NTP (timedatectl set-ntp true)."}, true
	}
	return Finding{"clock skew", OK, fmt.Sprintf("within %s of %s", maxSkew, answer.Host), ""}, true
}
