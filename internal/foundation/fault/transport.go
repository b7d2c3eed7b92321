package fault

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"net/url"
)

// Codes of faults on the way to a server.
const (
	CodeCertificate  = "certificate"
	CodeProxyLogin   = "proxy_login"
	CodeProxyRefuses = "proxy_refuses"
)

// OfTransport returns the fault of a request that a person has to do something about, or nil: the
// transport has said so itself, as with [ProxyAnswer], or the certificate of the server is not accepted.
// The kind of the latter is Denied, so that nobody tries again. Go reads SSL_CERT_FILE beside the
// directories of the system (package crypto/x509).
func OfTransport(err error, server string) *Error {
	if known, ok := errors.AsType[*Error](err); ok {
		return known
	}
	e, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	if !untrusted {
		return nil
	}
	return &Error{
		Kind: Denied, Code: CodeCertificate, Err: err,
		Message: "The certificate of " + server + " is not accepted: " + e.Err.Error() +
			". If an authority of your organization signed it, name its file in SSL_CERT_FILE, and start Lilac again.",
	}
}

// ProxyAnswer returns an error unless a proxy opens the connection that it was asked for with CONNECT. It is
// for [http.Transport.OnProxyConnectResponse]; without it, the error is the text of the status alone.
func ProxyAnswer(_ context.Context, _ *url.URL, asked *http.Request, answer *http.Response) error {
	switch answer.StatusCode {
	case http.StatusOK:
		return nil
	case http.StatusProxyAuthRequired, http.StatusUnauthorized: // tinyproxy answers 401 to a wrong password
		return &Error{Kind: Denied, Code: CodeProxyLogin, Message: ProxyLogin}
	case http.StatusForbidden:
		return &Error{Kind: Denied, Code: CodeProxyRefuses, Message: "The proxy of this network does not let Lilac reach " + asked.Host + ". Allow it there."}
	}
	return &Error{Kind: Unavailable, Code: "proxy_fails", Message: "The proxy of this network does not reach " + asked.Host + ": it answers " + answer.Status + "."}
}

// ProxyLogin is the message about a proxy that wants another login.
const ProxyLogin = "The proxy of this network does not accept the login. Write user:password@ before its host in HTTPS_PROXY, with special characters as %XX, and start Lilac again."
