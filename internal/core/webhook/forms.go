package webhook

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The headers of the forms, in canonical spelling.
const (
	githubSignature = "X-Hub-Signature-256"
	githubDelivery  = "X-Github-Delivery"
	githubEvent     = "X-Github-Event"

	gitlabToken  = "X-Gitlab-Token"
	gitlabEvent  = "X-Gitlab-Event"
	gitlabID     = "X-Gitlab-Event-Uuid"
	gitlabRepeat = "Idempotency-Key"

	stripeSignature = "Stripe-Signature"

	slackSignature = "X-Slack-Signature"
	slackTimestamp = "X-Slack-Request-Timestamp"

	// Senders that use Svix have another prefix for the headers of Standard Webhooks.
	standardPrefix    = "Webhook-"
	svixPrefix        = "Svix-"
	standardID        = "Id"
	standardTimestamp = "Timestamp"
	standardSignature = "Signature"
)

// A scheme is how one form signs and identifies deliveries.
type scheme struct {
	// proof returns what the headers claim about the sender. ok is false if no body can make
	// them valid.
	proof func(h Hook, header http.Header, now time.Time) (p proof, ok bool)
	// identify returns the id of a delivery and the name of its event. Either may be
	// empty.
	identify func(header http.Header, body []byte) (id, name string)
	// sign returns the headers of a delivery.
	sign func(h Hook, d Delivery, now time.Time) http.Header
	// idFrom says in an error where the id is.
	idFrom string
}

// A proof is what the headers of a delivery claim about its sender.
type proof struct {
	// token is set if the headers alone authenticate the sender.
	token bool
	// macs are the signatures of which one must match, and prefix is the signed text before
	// the body.
	macs   [][]byte
	prefix string
}

var schemes = map[Form]scheme{
	GitHub: {
		proof: func(_ Hook, header http.Header, _ time.Time) (proof, bool) {
			mac, ok := hexMAC(singleValue(header, githubSignature), "sha256=")
			return proof{macs: [][]byte{mac}}, ok
		},
		identify: func(header http.Header, _ []byte) (string, string) {
			return singleValue(header, githubDelivery), singleValue(header, githubEvent)
		},
		sign: func(h Hook, d Delivery, _ time.Time) http.Header {
			out := http.Header{githubDelivery: {d.ID}, githubSignature: {"sha256=" + hex.EncodeToString(h.mac("", d.Body))}}
			if d.Event != "" {
				out.Set(githubEvent, d.Event)
			}
			return out
		},
		idFrom: "header X-GitHub-Delivery",
	},
	Standard: {
		proof: standardProof,
		identify: func(header http.Header, body []byte) (string, string) {
			return standardHeader(header, standardID), fieldsOf(body).Type
		},
		sign: func(h Hook, d Delivery, now time.Time) http.Header {
			stamp := strconv.FormatInt(now.Unix(), 10)
			mac := base64.StdEncoding.EncodeToString(h.mac(d.ID+"."+stamp+".", d.Body))
			return http.Header{"Webhook-Id": {d.ID}, "Webhook-Timestamp": {stamp}, "Webhook-Signature": {"v1," + mac}}
		},
		idFrom: "header webhook-id",
	},
	GitLab: {
		proof: func(h Hook, header http.Header, _ time.Time) (proof, bool) {
			given, want := sha256.Sum256([]byte(singleValue(header, gitlabToken))), sha256.Sum256(h.key)
			ok := subtle.ConstantTimeCompare(given[:], want[:]) == 1
			return proof{token: ok}, ok
		},
		identify: func(header http.Header, body []byte) (id, name string) {
			if id = singleValue(header, gitlabRepeat); id == "" {
				// Events that an event caused share its UUID, so the body is part of the id.
				if id = singleValue(header, gitlabID); id != "" {
					sum := sha256.Sum256(body)
					id += "-" + hex.EncodeToString(sum[:8])
				}
			}
			return id, singleValue(header, gitlabEvent)
		},
		sign: func(h Hook, d Delivery, _ time.Time) http.Header {
			out := http.Header{gitlabToken: {string(h.key)}, gitlabRepeat: {d.ID}}
			if d.Event != "" {
				out.Set(gitlabEvent, d.Event)
			}
			return out
		},
		idFrom: "header Idempotency-Key or X-Gitlab-Event-UUID",
	},
	Stripe: {
		proof: stripeProof,
		identify: func(_ http.Header, body []byte) (string, string) {
			f := fieldsOf(body)
			return f.ID, f.Type
		},
		sign: func(h Hook, d Delivery, now time.Time) http.Header {
			stamp := strconv.FormatInt(now.Unix(), 10)
			return http.Header{stripeSignature: {"t=" + stamp + ",v1=" + hex.EncodeToString(h.mac(stamp+".", d.Body))}}
		},
		idFrom: "field id of its JSON body",
	},
	Slack: {
		proof: func(_ Hook, header http.Header, now time.Time) (proof, bool) {
			mac, ok := hexMAC(singleValue(header, slackSignature), "v0=")
			stamp := singleValue(header, slackTimestamp)
			return proof{macs: [][]byte{mac}, prefix: "v0:" + stamp + ":"}, ok && recent(stamp, now)
		},
		identify: func(header http.Header, body []byte) (id, name string) {
			f := fieldsOf(body)
			if id = f.EventID; id == "" {
				// Commands and interactions have no id. Their signature covers the time.
				id = strings.TrimPrefix(singleValue(header, slackSignature), "v0=")
			}
			if name = f.Event.Type; name == "" {
				name = f.Type
			}
			return id, name
		},
		sign: func(h Hook, d Delivery, now time.Time) http.Header {
			stamp := strconv.FormatInt(now.Unix(), 10)
			return http.Header{slackTimestamp: {stamp}, slackSignature: {"v0=" + hex.EncodeToString(h.mac("v0:"+stamp+":", d.Body))}}
		},
		idFrom: "field event_id of its JSON body",
	},
}

func standardProof(_ Hook, header http.Header, now time.Time) (proof, bool) {
	id, stamp := standardHeader(header, standardID), standardHeader(header, standardTimestamp)
	// The signed text is the id, the time, and the body, separated by dots. An id with a
	// dot would make the separation ambiguous.
	p := proof{macs: standardMACs(standardHeader(header, standardSignature)), prefix: id + "." + stamp + "."}
	return p, len(p.macs) > 0 && validID(id) && recent(stamp, now)
}

// standardHeader returns a header of Standard Webhooks. All headers of a delivery must have
// the same prefix, so that nobody can mix two deliveries.
func standardHeader(header http.Header, name string) string {
	prefix := standardPrefix
	if !slices.ContainsFunc([]string{standardID, standardTimestamp, standardSignature}, func(name string) bool { return len(header.Values(prefix+name)) > 0 }) {
		prefix = svixPrefix
	}
	return singleValue(header, prefix+name)
}

// stripeProof parses "t=TIME,v1=MAC", in which v1 may occur more than once.
func stripeProof(_ Hook, header http.Header, now time.Time) (p proof, ok bool) {
	var stamp string
	for part := range strings.SplitSeq(singleValue(header, stripeSignature), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch name {
		case "t":
			if stamp != "" {
				return proof{}, false
			}
			stamp = value
		case "v1":
			if mac, valid := hexMAC(value, ""); valid && len(p.macs) < maxSignatures {
				p.macs = append(p.macs, mac)
			}
		}
	}
	p.prefix = stamp + "."
	return p, len(p.macs) > 0 && recent(stamp, now)
}

// recent reports whether a Unix time in its shortest form is close to now.
func recent(stamp string, now time.Time) bool {
	at, err := strconv.ParseInt(stamp, 10, 64)
	return err == nil && strconv.FormatInt(at, 10) == stamp && at >= now.Add(-Tolerance).Unix() && at <= now.Add(Tolerance).Unix()
}

// hexMAC decodes a prefix and 64 hexadecimal digits.
func hexMAC(s, prefix string) ([]byte, bool) {
	digits, ok := strings.CutPrefix(s, prefix)
	if !ok || len(digits) != 2*sha256.Size {
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

// bodyFields are the fields of JSON bodies that identify a delivery.
type bodyFields struct {
	ID      string `json:"id"`
	Type    string `json:"type"`
	EventID string `json:"event_id"`
	Event   struct {
		Type string `json:"type"`
	} `json:"event"`
	Challenge string `json:"challenge"`
}

// fieldsOf returns the fields of a body, each empty if the body has it in another type. A
// body that is not a JSON object has none.
func fieldsOf(body []byte) (f bodyFields) {
	var raw map[string]json.RawMessage
	if json.Unmarshal(decodeText(body), &raw) != nil {
		return f
	}
	for name, into := range map[string]any{"id": &f.ID, "type": &f.Type, "event_id": &f.EventID, "event": &f.Event, "challenge": &f.Challenge} {
		if value, ok := raw[name]; ok {
			_ = json.Unmarshal(value, into) // another type leaves the field empty
		}
	}
	return f
}
