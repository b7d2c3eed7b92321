package fault

import (
	"crypto/tls"
	"errors"
)

// Untrusted returns the error of a server whose certificate is not accepted, or nil if err is about
// something else. Only a person can change that, so its kind is Denied: nobody tries again. Go reads
// SSL_CERT_FILE beside the directories of the system (package crypto/x509).
func Untrusted(err error, server string) *Error {
	e, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	if !untrusted {
		return nil
	}
	return &Error{
		Kind: Denied, Code: "certificate", Err: err,
		Message: "The certificate of " + server + " is not accepted: " + e.Err.Error() +
			". If an authority of your organization signed it, name its file in SSL_CERT_FILE, and start Lilac again.",
	}
}
