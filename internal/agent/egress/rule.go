package egress

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"lilac/internal/foundation/fault"
)

var headerName = regexp.MustCompile("^[A-Za-z0-9-]+$")

// Rule lets commands reach a host.
type Rule struct {
	// Host is a name ("api.github.com"), an address, or a wildcard for all names
	// below a name, but not that name itself ("*.githubusercontent.com").
	Host string
	// Ports are the ports that may be reached; none means 80 and 443.
	Ports []int
	// Headers are added to plain requests, which are then sent on as HTTPS.
	Headers map[string]string
	// Internal allows a host that is not on the public internet.
	Internal bool
}

// Validate returns an error if the rule is invalid. Its field is relative to the rule.
func (r Rule) Validate() error {
	name := strings.TrimPrefix(r.Host, "*.")
	if name == "" || normal(name) != name || strings.ContainsAny(name, "*/:@ \t\r\n") && !isAddress(name) {
		return fault.InvalidField("host", "%q is not a host: it is a name in small letters such as api.github.com, or *.example.org, without scheme, port and path.", r.Host)
	}
	if strings.HasPrefix(r.Host, "*.") && (isAddress(name) || !strings.Contains(name, ".")) {
		return fault.InvalidField("host", "%q is too wide: after *. stands a name with at least one dot.", r.Host)
	}
	var found []error
	for _, port := range r.Ports {
		if port < 1 || port > 65535 {
			found = append(found, fault.InvalidField("ports", "%d is not a port.", port))
		}
	}
	for key, value := range r.Headers {
		if !headerName.MatchString(key) || strings.ContainsFunc(value, unicode.IsControl) {
			found = append(found, fault.InvalidField("headers", "%q is not a header that can be sent.", key))
		}
		if slices.Contains([]string{"Host", "Content-Length", "Connection", "Transfer-Encoding", "Upgrade", "Te", "Trailer"}, http.CanonicalHeaderKey(key)) {
			found = append(found, fault.InvalidField("headers", "The header %s belongs to the connection and cannot be set.", key))
		}
	}
	if len(r.Headers) > 0 && strings.HasPrefix(r.Host, "*.") {
		found = append(found, fault.InvalidField("headers", "Headers are for one host by its name, not for %s: a credential goes to no host that is not named.", r.Host))
	}
	return errors.Join(found...)
}

func (r Rule) allows(host string, port int) bool {
	if suffix, ok := strings.CutPrefix(r.Host, "*"); ok {
		if !strings.HasSuffix(host, suffix) || len(host) == len(suffix) {
			return false
		}
	} else if host != r.Host {
		return false
	}
	if len(r.Ports) == 0 {
		return port == httpPort || port == httpsPort
	}
	return slices.Contains(r.Ports, port)
}

const (
	httpPort  = 80
	httpsPort = 443
)

// match returns the rule for a host. Rules with headers come first.
func match(rules []Rule, host string, port int) (Rule, bool) {
	best := -1
	for i, r := range rules {
		if r.allows(host, port) && (best < 0 || len(rules[best].Headers) == 0 && len(r.Headers) > 0) {
			best = i
		}
	}
	if best < 0 {
		return Rule{}, false
	}
	return rules[best], true
}

// normal returns the canonical form of a host name: lowercase, without a trailing dot.
func normal(host string) string { return strings.ToLower(strings.TrimSuffix(host, ".")) }

// target parses "host:port". The port may be missing if there is a usual one.
func target(hostport string, usual int) (host string, port int, ok bool) {
	host, text, err := net.SplitHostPort(hostport)
	if err != nil {
		if usual == 0 {
			return "", 0, false
		}
		return normal(strings.Trim(hostport, "[]")), usual, hostport != ""
	}
	port, err = strconv.Atoi(text)
	return normal(host), port, err == nil && host != "" && port > 0 && port <= 65535
}

func isAddress(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}
