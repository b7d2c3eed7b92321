package web

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/text"
)

// The search services.
const (
	searxng = "searxng"
	brave   = "brave"
	tavily  = "tavily"
)

const (
	// MaxResults bounds the results of a search. Brave and Tavily refuse to return more.
	MaxResults = 20
	// maxSearchAnswer bounds the answer of a service, in bytes.
	maxSearchAnswer = 4 << 20
	searchTime      = 30 * time.Second
	// maxSnippet bounds the text of a result, in bytes.
	maxSnippet = 2000
)

// Result is a page that was found.
type Result struct {
	Title string `json:"title"`
	URL   string `json:"url"`
	// Snippet is a part of the page's text.
	Snippet string `json:"snippet,omitempty"`
}

// Searcher asks a search service.
type Searcher struct {
	Settings SearchSettings
	// HTTP makes the calls; nil means the default client.
	HTTP *http.Client
}

// Search returns up to count pages, best first. Its error is a sentence for people.
func (s Searcher) Search(ctx context.Context, query string, count int) ([]Result, error) {
	ctx, cancel := context.WithTimeout(ctx, searchTime)
	defer cancel()
	req, err := s.request(ctx, query, count)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "web.search.url is not the URL of a search service.")
	}
	res, err := cmp.Or(s.HTTP, http.DefaultClient).Do(req)
	if err != nil {
		if u := (*url.Error)(nil); errors.As(err, &u) {
			err = u.Err // without the query
		}
		if known := fault.OfTransport(err, "the search service"); known != nil {
			return nil, known
		}
		return nil, fault.Wrap(fault.Unavailable, err, "The search service %s cannot be reached at %s.", s.Settings.Provider, req.URL.Host)
	}
	defer func() { _ = res.Body.Close() }() // it was only read
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxSearchAnswer))
	switch {
	case err != nil:
		return nil, fault.Wrap(fault.Unavailable, err, "The search service %s broke off its answer.", s.Settings.Provider)
	case res.StatusCode != http.StatusOK:
		return nil, s.refusal(res, answer)
	}
	results, err := resultsOf(answer)
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "The search service %s answers with something other than results. Check web.search.", s.Settings.Provider)
	}
	return results[:min(count, len(results))], nil
}

// request builds the call as the services document it: https://docs.searxng.org/dev/search_api.html,
// https://api-dashboard.search.brave.com, https://docs.tavily.com.
func (s Searcher) request(ctx context.Context, query string, count int) (*http.Request, error) {
	base := strings.TrimRight(s.Settings.URL, "/")
	switch s.Settings.Provider {
	case brave:
		q := url.Values{"q": {query}, "count": {strconv.Itoa(count)}, "text_decorations": {"false"}}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, cmp.Or(base, "https://api.search.brave.com/res/v1")+"/web/search?"+q.Encode(), nil)
		if err == nil {
			req.Header.Set("Accept", "application/json")
			req.Header.Set("X-Subscription-Token", s.Settings.APIKey.Reveal())
		}
		return req, err
	case tavily:
		body, _ := json.Marshal(map[string]any{"query": query, "max_results": count}) // a string and a number always marshal
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, cmp.Or(base, "https://api.tavily.com")+"/search", bytes.NewReader(body))
		if err == nil {
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Authorization", "Bearer "+s.Settings.APIKey.Reveal())
		}
		return req, err
	}
	return http.NewRequestWithContext(ctx, http.MethodGet, base+"/search?"+url.Values{"q": {query}, "format": {"json"}}.Encode(), nil)
}

// refusal says why a service refuses, and what to do.
func (s Searcher) refusal(res *http.Response, answer []byte) error {
	name, said := s.Settings.Provider, ""
	if m := messageOf(answer); m != "" {
		said = fmt.Sprintf(" It says: %s", m)
	}
	switch code := res.StatusCode; {
	case code == http.StatusForbidden && name == searxng:
		return fault.New(fault.Denied, "The SearXNG server gives no results as JSON. Add json to search.formats in its settings.yml.")
	case code == http.StatusUnauthorized || code == http.StatusForbidden || code == http.StatusUnprocessableEntity && strings.Contains(said, "token"):
		return fault.New(fault.Unauthenticated, "The search service %s does not accept the key. Check web.search.apiKey.%s", name, said)
	case code == http.StatusTooManyRequests, code == http.StatusPaymentRequired, code == 432, code == 433: // Tavily: the plan's limits
		return fault.New(fault.RateLimited, "The search service %s allows no more searches now.%s", name, said)
	}
	return fault.New(fault.Unavailable, "The search service %s refuses the search with status %d.%s", name, res.StatusCode, said)
}

// messageOf returns the sentence in an error of Brave ({"error":{"detail"}}) or Tavily
// ({"detail":{"error"}}).
func messageOf(answer []byte) string {
	var said struct {
		Error  struct{ Detail string }
		Detail struct{ Error string }
	}
	_ = json.Unmarshal(answer, &said) // no sentence if it has another shape
	return text.TruncateWith(cmp.Or(said.Error.Detail, said.Detail.Error), 300, "…")
}

// resultsOf decodes an answer of any service: Brave nests its results.
func resultsOf(answer []byte) ([]Result, error) {
	type found struct{ Title, URL, Content, Description string }
	var body struct {
		Results *[]found
		Web     *struct{ Results []found }
		Query   json.RawMessage // Brave has no results for some queries
	}
	if err := json.Unmarshal(answer, &body); err != nil {
		return nil, fmt.Errorf("decode results: %w", err)
	}
	if body.Results == nil && body.Web == nil && body.Query == nil {
		return nil, errors.New("the answer has no results")
	}
	var all []found
	if body.Results != nil {
		all = *body.Results
	} else if body.Web != nil {
		all = body.Web.Results
	}
	out := make([]Result, 0, len(all))
	for _, f := range all {
		if f.URL != "" {
			out = append(out, Result{f.Title, f.URL, text.TruncateWith(cmp.Or(f.Content, f.Description), maxSnippet, "…")})
		}
	}
	return out, nil
}
