package webhook

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/hmac"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"lilac/internal/foundation/fault"
)

const (
	// Tolerance bounds the difference between a signed time and the local time.
	Tolerance = 5 * time.Minute
	// maxSignatures bounds the signatures of a header. A sender that rotates its secret
	// sends two.
	maxSignatures = 16
	// maxID bounds the id of a delivery, in bytes.
	maxID = 128
)

// Delivery is a verified delivery of a webhook.
type Delivery struct {
	// ID is the sender's id, which is the same for a repeated delivery. It is empty for a
	// sender without ids.
	ID string
	// Event is the sender's name for the event, if it has one.
	Event string
	// Body is the body without its compression.
	Body []byte
}

// CheckHeaders refuses a delivery whose headers no body can make valid: without a signature,
// with an old one, or, in forms with a token, with the wrong token. It returns the error that
// [Hook.Verify] would return, and lets a server refuse a sender before it reads the body.
func (h Hook) CheckHeaders(header http.Header, now time.Time) error {
	if _, ok := schemes[h.Form].proof(h, header, now); !ok {
		return errSignature
	}
	if _, err := compression(header); err != nil {
		return err
	}
	return nil
}

// Verify checks the signature of a body. An invalid signature is a
// fault.Unauthenticated; a signed delivery without a usable id is a fault.Invalid.
//
// A body may be compressed. Senders sign what they send, but a proxy may compress a body that
// was signed before, so either form may match the signature.
func (h Hook) Verify(header http.Header, body []byte, now time.Time) (Delivery, error) {
	p, ok := schemes[h.Form].proof(h, header, now)
	if !ok {
		return Delivery{}, errSignature
	}
	plain, err := h.decompress(header, body)
	if !p.matches(h, body) && (err != nil || !p.matches(h, plain)) {
		return Delivery{}, errSignature
	}
	if err != nil {
		return Delivery{}, err
	}
	return h.delivery(header, plain)
}

// errSignature is the error for every invalid signature, so that it does not help an
// attacker to guess.
var errSignature = &fault.Error{
	Kind: fault.Unauthenticated, Code: "signature_invalid",
	Message: "The signature or token of this webhook is missing, invalid, or too old.",
}

// matches compares all signatures, so that the time does not tell which one matched.
func (p proof) matches(h Hook, body []byte) bool {
	found := p.token
	for _, mac := range p.macs {
		found = hmac.Equal(mac, h.mac(p.prefix, body)) || found
	}
	return found
}

// delivery returns the delivery without checking its signature.
func (h Hook) delivery(header http.Header, body []byte) (Delivery, error) {
	s := schemes[h.Form]
	id, name := s.identify(h, header, body)
	if !validID(id) && (s.idFrom != "" || h.IDHeader != "") {
		return Delivery{}, fault.New(fault.Invalid, "The webhook has no usable id in the %s (1 to %d letters, digits, - and _).", cmp.Or(s.idFrom, "header "+h.IDHeader), maxID)
	}
	return Delivery{ID: id, Event: printable(name), Body: body}, nil
}

// Challenge returns the text that Slack expects back when an operator enters the address
// of the webhook. ok is false for every other delivery.
func (h Hook) Challenge(d Delivery) (text string, ok bool) {
	if h.Form != Slack || d.Event != "url_verification" {
		return "", false
	}
	text = printable(fieldsOf(d.Body).Challenge)
	return text, text != ""
}

// errTooLarge reports a body that exceeds the limit after decompression.
func (h Hook) errTooLarge() error {
	return fault.New(fault.TooLarge, "The body is larger than %d bytes.", h.MaxBytes)
}

// compression returns whether a body is compressed with gzip.
func compression(header http.Header) (compressed bool, err error) {
	switch name := strings.ToLower(strings.TrimSpace(strings.Join(header.Values("Content-Encoding"), ","))); name {
	case "", "identity":
		return false, nil
	case "gzip", "x-gzip":
		return true, nil
	default:
		return false, fault.New(fault.Invalid, "The content encoding %s is not supported. Use gzip, or none.", printable(name))
	}
}

// decompress returns the body without its compression. Its limit is the limit of the body,
// so a small body cannot become a large one.
func (h Hook) decompress(header http.Header, body []byte) ([]byte, error) {
	compressed, err := compression(header)
	if err != nil || !compressed {
		return body, err
	}
	r, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, errNotGzip(err)
	}
	plain, err := io.ReadAll(io.LimitReader(r, h.MaxBytes+1))
	switch {
	case err != nil:
		return nil, errNotGzip(err)
	case int64(len(plain)) > h.MaxBytes:
		return nil, h.errTooLarge()
	}
	return plain, nil
}

func errNotGzip(err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fault.Wrap(fault.Invalid, err, "The header Content-Encoding is gzip, but the body is not.")
}

// singleValue returns the value of a header that occurs once, otherwise "".
func singleValue(h http.Header, name string) string {
	if v := h.Values(name); len(v) == 1 {
		return v[0]
	}
	return ""
}

// validID reports whether an id has only characters that are unambiguous in logs and in
// the signed text.
func validID(s string) bool {
	if s == "" || len(s) > maxID {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
	})
}

// Sign returns the headers of a delivery, for tests of a webhook. Stripe and Slack have the
// id of a delivery in its body, and a hook without [Spec.IDHeader] has none.
func (h Hook) Sign(d Delivery, now time.Time) http.Header { return schemes[h.Form].sign(h, d, now) }
