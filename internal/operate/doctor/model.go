package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"lilac/internal/foundation/fault"
	"lilac/internal/operate/config"
)

const (
	// reachTimeout bounds the connection test to the model's host; askTimeout bounds a request.
	reachTimeout = 3 * time.Second
	askTimeout   = 15 * time.Second
	// maxModels bounds the size of a provider's model list, in bytes.
	maxModels = 8 << 20
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
		return []Finding{{"model", Fail, fault.ToWire(err).Message, "Set the key, or choose another model."}}
	}
	if m.Type == config.Demo {
		return []Finding{{"model", OK, "the built-in demo (" + m.Why + ")", "To use a real model, set ANTHROPIC_API_KEY or OPENAI_API_KEY."}}
	}
	message := fmt.Sprintf("%s (%s), %d tokens of context", m, m.Why, m.ContextTokens)
	if p.Online {
		return p.ask(ctx, m, message)
	}
	if f := reach(ctx, m); f != nil {
		return []Finding{*f}
	}
	return []Finding{known(m, message)}
}

func known(m config.ModelChoice, message string) Finding {
	if m.Price == nil {
		return Finding{"model", Warn, message + "; unknown price", fmt.Sprintf("To count and limit money, set models: {%q: {contextTokens: …, price: {input: …, output: …}}}.", m.String())}
	}
	return Finding{"model", OK, message, ""}
}

func reach(ctx context.Context, m config.ModelChoice) *Finding {
	u, err := url.Parse(m.BaseURL)
	if err != nil {
		return &Finding{"model", Fail, m.String() + ": invalid base URL", "Check providers." + m.Provider + ".baseURL."}
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return &Finding{"model", Warn, m.String() + ": cannot reach " + u.Host, "Check the network, providers." + m.Provider + ".baseURL, and proxies."}
	}
	_ = conn.Close() // it was opened only to test the connection
	return nil
}

// ask lists the provider's models. This is free, and it shows whether the provider accepts the API
// key, offers the model, and agrees about the time.
func (p Patient) ask(ctx context.Context, m config.ModelChoice, message string) []Finding {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	target, header := m.BaseURL+"/models", http.Header{"Authorization": {"Bearer " + m.APIKey.Reveal()}}
	if m.Type == config.Anthropic {
		target, header = m.BaseURL+"/v1/models?limit=1000", http.Header{"X-Api-Key": {m.APIKey.Reveal()}, "Anthropic-Version": {"2023-06-01"}}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return []Finding{{"model", Fail, m.String() + ": invalid base URL", "Check providers." + m.Provider + ".baseURL."}}
	}
	req.Header = header
	// Redirects are disabled, because they would send the API key to another host.
	asker := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := asker.Do(req)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err
		}
		return []Finding{{"model", Fail, fmt.Sprintf("%s: cannot reach %s: %v", m, req.URL.Host, err), "Check the network, providers." + m.Provider + ".baseURL, and proxies."}}
	}
	defer res.Body.Close()
	out := []Finding{p.answered(res, m, message)}
	if f, ok := p.skew(res); ok {
		out = append(out, f)
	}
	return out
}

func (p Patient) answered(res *http.Response, m config.ModelChoice, message string) Finding {
	switch {
	case res.StatusCode == http.StatusUnauthorized || res.StatusCode == http.StatusForbidden:
		return Finding{"model", Fail, fmt.Sprintf("%s: %s rejects the key (%s)", m, res.Request.URL.Host, res.Status), "Set a valid key: " + m.KeySetting() + "."}
	case res.StatusCode == http.StatusNotFound || res.StatusCode == http.StatusMethodNotAllowed:
		return known(m, message+"; it is reached, and tells no list of models")
	case res.StatusCode != http.StatusOK:
		return Finding{"model", Warn, fmt.Sprintf("%s: %s answers %s", m, res.Request.URL.Host, res.Status), "Try again later, and check the provider's status page."}
	}
	var list struct{ Data []struct{ ID string } }
	if err := json.NewDecoder(io.LimitReader(res.Body, maxModels)).Decode(&list); err != nil || len(list.Data) == 0 {
		return known(m, message+"; the key is taken")
	}
	for _, have := range list.Data {
		// An alias matches the dated name. Gemini prefixes its names with "models/".
		if id := strings.TrimPrefix(have.ID, "models/"); id == m.Name || strings.HasPrefix(id, m.Name+"-2") || strings.HasPrefix(m.Name, id) && strings.HasSuffix(m.Name, "-latest") {
			return known(m, message+"; the key is taken and the model is there")
		}
	}
	return Finding{"model", Warn, fmt.Sprintf("%s: the key is valid, but the provider does not list this model", m), "Check the name of the model. It may have been retired."}
}

// skew compares the local clock with the Date header of the response.
func (p Patient) skew(res *http.Response) (Finding, bool) {
	theirs, err := http.ParseTime(res.Header.Get("Date"))
	if err != nil {
		return Finding{}, false
	}
	off := p.Now().Sub(theirs).Round(time.Second)
	if off.Abs() > maxSkew {
		return Finding{"clock skew", Warn, fmt.Sprintf("the clock differs by %s from that of %s", off, res.Request.URL.Host), "Synchronize the clock with NTP (timedatectl set-ntp true)."}, true
	}
	return Finding{"clock skew", OK, fmt.Sprintf("within %s of %s", maxSkew, res.Request.URL.Host), ""}, true
}
