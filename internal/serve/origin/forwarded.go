package origin

import (
	"context"
	"net/http"
	"net/netip"
	"strings"
)

// Resolve returns r as the client sent it to the proxy. If r comes from a trusted
// proxy, Host and the scheme are those of the Forwarded header (RFC 7239), or else
// of X-Forwarded-Host and X-Forwarded-Proto. If a header lists several proxies, the
// last entry counts: the trusted proxy added it, and the client may have made up
// the others. Headers of other senders are ignored.
func Resolve(r *http.Request, trusted []netip.Prefix) *http.Request {
	if len(trusted) == 0 || !from(r, trusted) {
		return r
	}
	return Believe(r)
}

// Believe returns r as the client sent it to the proxy that r comes from, which the caller trusts.
func Believe(r *http.Request) *http.Request {
	host, proto := forwarded(last(r.Header.Values("Forwarded")))
	if host == "" {
		host = last(r.Header.Values("X-Forwarded-Host"))
	}
	if proto == "" {
		proto = last(r.Header.Values("X-Forwarded-Proto"))
	}
	if host == "" && proto == "" {
		return r
	}
	ctx := r.Context()
	if strings.EqualFold(proto, "https") {
		ctx = context.WithValue(ctx, httpsKey{}, true)
	}
	out := r.WithContext(ctx) // a shallow copy
	if host != "" {
		out.Host = host
	}
	return out
}

// Published returns r as sent with TLS if its host is the one under which people reach the server
// with https: a proxy in front of it need not be trusted for that.
func Published(r *http.Request, host string) *http.Request {
	if host == "" || !strings.EqualFold(r.Host, host) {
		return r
	}
	return r.WithContext(context.WithValue(r.Context(), httpsKey{}, true))
}

type httpsKey struct{}

// Secure reports whether the client uses TLS, to this server or to a proxy in front of it.
func Secure(r *http.Request) bool {
	https, _ := r.Context().Value(httpsKey{}).(bool)
	return https || r.TLS != nil
}

func from(r *http.Request, trusted []netip.Prefix) bool {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	addr := peer.Addr().Unmap().WithZone("")
	for _, p := range trusted {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

// last returns the last entry of a header that is a list.
func last(values []string) string {
	if len(values) == 0 {
		return ""
	}
	value := values[len(values)-1]
	return strings.TrimSpace(value[strings.LastIndexByte(value, ',')+1:])
}

// forwarded parses an entry of a Forwarded header, such as
// for=192.0.2.1;host="lilac.example:8443";proto=https.
func forwarded(entry string) (host, proto string) {
	for pair := range strings.SplitSeq(entry, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(pair), "=")
		value = strings.Trim(value, `"`)
		switch strings.ToLower(name) {
		case "host":
			host = value
		case "proto":
			proto = value
		}
	}
	return host, proto
}
