// Package origin refuses requests that the page of another site makes a browser
// send. Every page that the browser shows can reach a server on loopback (DNS
// rebinding, forms, no-cors fetches), so neither the address nor the method is a
// check. Tokens are a separate check, which this package does not make.
//
// Its functions are pure and safe for concurrent use.
package origin

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"lilac/internal/foundation/fault"
)

// Check refuses, with fault.Denied, a request whose Host is neither loopback nor
// allowed, whose Origin does not match its Host, or that a browser marks as
// cross-site. Allowed receives the host in lower case, once as it was sent and
// once without its port.
func Check(r *http.Request, allowed func(host string) bool) error {
	denied := func(code, format string, args ...any) error {
		return &fault.Error{Kind: fault.Denied, Code: code, Message: fmt.Sprintf(format, args...)}
	}
	if !hostAllowed(r.Host, allowed) {
		return denied("host_not_allowed", "The host name in the Host header (%q) is not allowed. If it is a name of this server, add it to allowedHosts.", r.Host)
	}
	if origins := r.Header.Values("Origin"); len(origins) > 1 || len(origins) == 1 && !sameOrigin(origins[0], r.Host) {
		return denied("origin_not_allowed", "Requests from other sites are refused: the Origin header (%q) does not match the Host header (%q). "+
			"Behind a reverse proxy, make the proxy pass on the Host header (nginx: proxy_set_header Host $http_host; Apache: ProxyPreserveHost On), "+
			"or add the proxy's address to trustedProxies and make it set X-Forwarded-Host. To let pages of another site use /v1 or /mcp, add their origin to v1.origins or mcp.origins.", strings.Join(origins, ", "), r.Host)
	}
	for _, site := range r.Header.Values("Sec-Fetch-Site") {
		if site != "same-origin" && site != "none" {
			return denied("cross_site", "Requests from other sites are refused. Type the address, or use the link that the server printed.")
		}
	}
	return nil
}

// CheckNavigation is like [Check], but lets a link of another site open a page. It is for pages
// that do nothing when they are opened.
func CheckNavigation(r *http.Request, allowed func(host string) bool) error {
	if r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document" {
		r = r.Clone(r.Context())
		r.Header.Del("Sec-Fetch-Site")
	}
	return Check(r, allowed)
}

// CheckFile is like [Check], but does not look at Origin. It is for the files of the page, which are the same
// for everybody: browsers send an Origin for a script that is a module. Without its script, the page could not
// show how to mend a proxy that changes the Host header.
func CheckFile(r *http.Request, allowed func(host string) bool) error {
	r = r.Clone(r.Context())
	r.Header.Del("Origin")
	return Check(r, allowed)
}

// Any allows every host.
func Any(string) bool { return true }

// IsIP reports whether a host without a port is an IP address. DNS rebinding needs
// a name, so an IP address is safe where a token is required as well.
func IsIP(host string) bool {
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Zone() == ""
}

// hostAllowed accepts loopback with any port, and the allowed hosts.
func hostAllowed(host string, allowed func(string) bool) bool {
	host = strings.ToLower(host)
	if allowed(host) {
		return true
	}
	name := host
	if h, port, err := net.SplitHostPort(host); err == nil {
		if port == "" {
			return false
		}
		name = h
	}
	name = strings.TrimSuffix(strings.TrimSuffix(strings.TrimPrefix(name, "["), "]"), ".")
	if name == "localhost" || allowed(name) {
		return true
	}
	addr, err := netip.ParseAddr(name)
	return err == nil && addr.Zone() == "" && addr.Unmap().IsLoopback()
}

// sameOrigin compares an Origin with the Host that the request was sent to. The
// scheme may be http or https, because a proxy may terminate TLS.
func sameOrigin(origin, host string) bool {
	u, err := url.Parse(origin)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.Path != "" || u.RawQuery != "" {
		return false
	}
	trim := func(h string) string {
		h = strings.ToLower(h)
		if u.Scheme == "http" {
			return strings.TrimSuffix(h, ":80")
		}
		return strings.TrimSuffix(h, ":443")
	}
	return u.Host != "" && trim(u.Host) == trim(host)
}
