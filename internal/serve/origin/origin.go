// Package origin tells a request of a program or page of ours from one that
// another site's page makes the browser send. A server on loopback is reachable
// by every page that the browser shows (DNS rebinding, forms, no-cors fetches),
// so neither the address nor the method is a check. It knows nothing of tokens,
// which are asked for as well.
package origin

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"lilac/internal/foundation/fault"
)

// Check refuses, with a fault.Denied, a request whose Host is neither loopback
// nor one that known accepts (with or without its port, in lower case), whose
// Origin is another than its Host, or that a browser marks as cross-site.
func Check(r *http.Request, known func(host string) bool) error {
	denied := func(code, message string) error {
		return &fault.Error{Kind: fault.Denied, Code: code, Message: message}
	}
	if !hostIsOurs(r.Host, known) {
		return denied("host_not_allowed", "This host name is not one of this server's. Add it to allowedHosts if it is.")
	}
	if origins := r.Header.Values("Origin"); len(origins) > 1 || len(origins) == 1 && !sameOrigin(origins[0], r.Host) {
		return denied("origin_not_allowed", "Requests from other sites are refused.")
	}
	for _, site := range r.Header.Values("Sec-Fetch-Site") {
		if site != "same-origin" && site != "none" {
			return denied("cross_site", "Requests from other sites are refused. Type the address, or use the link that the server printed.")
		}
	}
	return nil
}

// hostIsOurs accepts loopback with any port, and the known hosts.
func hostIsOurs(host string, known func(string) bool) bool {
	host = strings.ToLower(host)
	name := host
	if h, port, err := net.SplitHostPort(host); err == nil {
		if port == "" {
			return false
		}
		name = h
	}
	name = strings.TrimSuffix(strings.TrimSuffix(strings.TrimPrefix(name, "["), "]"), ".")
	if name == "localhost" || known(name) || known(host) {
		return true
	}
	addr, err := netip.ParseAddr(name)
	return err == nil && addr.Zone() == "" && addr.Unmap().IsLoopback()
}

// sameOrigin compares an Origin with the Host that the request came to. The
// scheme may be either: TLS, if any, ends at a proxy.
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
