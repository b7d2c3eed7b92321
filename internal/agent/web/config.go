package web

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/setting"
)

// Settings is the section "web" of the configuration.
type Settings struct {
	Hosts  []string       `json:"hosts,omitempty" jsonschema:"Hosts whose pages the agent may read with web.fetch, over HTTPS: names (docs.python.org), all names below one (*.wikipedia.org), or * for the whole public internet. The agent can send data to these hosts, as part of an address. Without hosts, there is no web.fetch."`
	Search SearchSettings `json:"search,omitempty" jsonschema:"The search service of web.search. Without one, there is no web.search."`
}

// SearchSettings selects a search service.
type SearchSettings struct {
	Provider string         `json:"provider,omitempty" enum:"searxng,brave,tavily" jsonschema:"The service: searxng (your own server; its settings must allow the format json), brave, or tavily."`
	URL      string         `json:"url,omitempty" jsonschema:"The base URL of the SearXNG server, or another address of the API of Brave or Tavily."`
	APIKey   setting.Secret `json:"apiKey,omitempty" jsonschema:"The key of Brave or Tavily. Prefer ${NAME}, which reads an environment variable."`
}

// Check returns the mistakes in the settings, each with its field below "web".
func (s Settings) Check() error {
	var found []error
	for i, host := range s.Hosts {
		if !validHost(host) {
			found = append(found, fault.InvalidField(fmt.Sprintf("web.hosts[%d]", i), "%q is no host: it is a name in small letters such as docs.python.org, or *.wikipedia.org, or *, without scheme, port, and path.", host))
		}
	}
	return errors.Join(append(found, s.Search.check()...)...)
}

func validHost(host string) bool {
	if host == "*" {
		return true
	}
	name := strings.TrimPrefix(host, "*.")
	_, err := netip.ParseAddr(name)
	return err != nil && strings.Contains(name, ".") && name == strings.ToLower(name) && !strings.ContainsAny(name, "*/:@ \t\r\n") && !strings.HasPrefix(name, ".") && !strings.HasSuffix(name, ".")
}

func (s SearchSettings) check() (found []error) {
	if s.Provider == "" {
		if s.URL != "" || s.APIKey.Set() {
			found = append(found, fault.InvalidField("web.search.provider", "web.search has no provider. Choose searxng, brave, or tavily."))
		}
		return found
	}
	if s.URL != "" {
		if u, err := url.Parse(s.URL); err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
			found = append(found, fault.InvalidField("web.search.url", "web.search.url is not the URL of a server."))
		}
	}
	switch {
	case s.Provider == searxng && s.URL == "":
		found = append(found, fault.InvalidField("web.search.url", "SearXNG needs web.search.url, the address of your server."))
	case s.Provider != searxng && !s.APIKey.Set():
		found = append(found, fault.InvalidField("web.search.apiKey", "The search service %s needs web.search.apiKey.", s.Provider))
	}
	return found
}
