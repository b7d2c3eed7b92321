package webhook

import (
	"crypto/hmac"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"

	"lilac/internal/foundation/fault"
)

// The headers of the forms.
const (
	githubSignature = "X-Hub-Signature-256"
	githubDelivery  = "X-Github-Delivery"
	githubEvent     = "X-Github-Event"

	standardID        = "Webhook-Id"
	standardTimestamp = "Webhook-Timestamp"
	standardSignature = "Webhook-Signature"
)

const (
	// Tolerance bounds the difference between the time of a Standard webhook and the
	// local time.
	Tolerance = 5 * time.Minute
	// maxSignatures bounds the signatures of a header. A sender that rotates its secret
	// sends two.
	maxSignatures = 16
	// maxID bounds the id of a delivery, in bytes.
	maxID = 128
)

// Delivery is a verified delivery of a webhook.
type Delivery struct {
	// ID is the sender's id, which is the same for a repeated delivery.
	ID string
	// Event is the sender's name for the event, if it has one.
	Event string
	Body  []byte
}

// Verify checks the signature of a body. An invalid signature is a
// fault.Unauthenticated; a signed delivery without a usable id is a fault.Invalid.
func (h Hook) Verify(header http.Header, body []byte, now time.Time) (Delivery, error) {
	if !h.authentic(header, body, now) {
		return Delivery{}, errSignature
	}
	return h.delivery(header, body)
}

// errSignature is the error for every invalid signature, so that it does not help an
// attacker to guess.
var errSignature = &fault.Error{
	Kind: fault.Unauthenticated, Code: "signature_invalid",
	Message: "The signature of this webhook is missing, invalid, or too old.",
}

// delivery returns the delivery without checking its signature.
func (h Hook) delivery(header http.Header, body []byte) (Delivery, error) {
	d := Delivery{ID: singleValue(header, githubDelivery), Event: printable(singleValue(header, githubEvent)), Body: body}
	if h.Form == Standard {
		d.ID, d.Event = singleValue(header, standardID), bodyType(body)
	}
	if !validID(d.ID) {
		return Delivery{}, fault.New(fault.Invalid, "The webhook has no usable id in its header %s (1 to %d letters, digits, - and _).", h.idHeader(), maxID)
	}
	return d, nil
}

func (h Hook) idHeader() string {
	if h.Form == Standard {
		return "webhook-id"
	}
	return "X-GitHub-Delivery"
}

func (h Hook) authentic(header http.Header, body []byte, now time.Time) bool {
	if h.Form != Standard {
		given, ok := githubMAC(singleValue(header, githubSignature))
		return ok && hmac.Equal(given, h.mac(body))
	}
	id, stamp := singleValue(header, standardID), singleValue(header, standardTimestamp)
	// The signed text is the id, the time, and the body, separated by dots. An id with a
	// dot would make the separation ambiguous.
	at, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || strconv.FormatInt(at, 10) != stamp || !validID(id) {
		return false
	}
	want := h.mac([]byte(id), []byte("."), []byte(stamp), []byte("."), body)
	found := false
	for _, mac := range standardMACs(singleValue(header, standardSignature)) {
		found = hmac.Equal(mac, want) || found
	}
	return found && at >= now.Add(-Tolerance).Unix() && at <= now.Add(Tolerance).Unix()
}

// githubMAC decodes "sha256=" and 64 hexadecimal digits.
func githubMAC(s string) ([]byte, bool) {
	digits, ok := strings.CutPrefix(s, "sha256=")
	if !ok {
		return nil, false
	}
	mac, err := hex.DecodeString(digits)
	return mac, err == nil
}

// standardMACs decodes the signatures of a header: "v1," and base64, separated by spaces.
// It ignores other versions.
func standardMACs(s string) (out [][]byte) {
	for i, one := range strings.Fields(s) {
		if i == maxSignatures {
			break
		}
		encoded, ok := strings.CutPrefix(one, "v1,")
		if !ok {
			continue
		}
		if mac, err := base64.StdEncoding.DecodeString(encoded); err == nil {
			out = append(out, mac)
		}
	}
	return out
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

// Sign returns the headers of a delivery, for tests of a webhook.
func (h Hook) Sign(d Delivery, now time.Time) http.Header {
	out := http.Header{}
	if h.Form == Standard {
		stamp := strconv.FormatInt(now.Unix(), 10)
		mac := h.mac([]byte(d.ID), []byte("."), []byte(stamp), []byte("."), d.Body)
		out.Set(standardID, d.ID)
		out.Set(standardTimestamp, stamp)
		out.Set(standardSignature, "v1,"+base64.StdEncoding.EncodeToString(mac))
		return out
	}
	out.Set(githubDelivery, d.ID)
	out.Set(githubSignature, "sha256="+hex.EncodeToString(h.mac(d.Body)))
	if d.Event != "" {
		out.Set(githubEvent, d.Event)
	}
	return out
}
