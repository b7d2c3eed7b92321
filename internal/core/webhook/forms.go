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

	authorization = "Authorization"

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
	identify func(h Hook, header http.Header, body []byte) (id, name string)
	// sign returns the headers of a delivery.
	sign func(h Hook, d Delivery, now time.Time) http.Header
	// idFrom says in an error where the id is. It is empty for the forms of any sender, whose
	// specs say it.
	idFrom string
	// signsTime is set if the signature covers the time and the id, so that nobody can repeat a
	// delivery under another id.
	signsTime bool
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
		identify: func(_ Hook, header http.Header, _ []byte) (string, string) {
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
		identify: func(_ Hook, header http.Header, body []byte) (string, string) {
			return standardHeader(header, standardID), fieldsOf(body).Type
		},
		sign: func(h Hook, d Delivery, now time.Time) http.Header {
			stamp := strconv.FormatInt(now.Unix(), 10)
			mac := base64.StdEncoding.EncodeToString(h.mac(d.ID+"."+stamp+".", d.Body))
			return http.Header{"Webhook-Id": {d.ID}, "Webhook-Timestamp": {stamp}, "Webhook-Signature": {"v1," + mac}}
		},
		idFrom:    "header webhook-id",
		signsTime: true,
	},
	GitLab: {
		proof: func(h Hook, header http.Header, _ time.Time) (proof, bool) {
			return h.tokenProof(singleValue(header, gitlabToken))
		},
		identify: func(_ Hook, header http.Header, body []byte) (id, name string) {
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
		identify: func(_ Hook, _ http.Header, body []byte) (string, string) {
			f := fieldsOf(body)
			return f.ID, f.Type
		},
		sign: func(h Hook, d Delivery, now time.Time) http.Header {
			stamp := strconv.FormatInt(now.Unix(), 10)
			return http.Header{stripeSignature: {"t=" + stamp + ",v1=" + hex.EncodeToString(h.mac(stamp+".", d.Body))}}
		},
		idFrom:    "field id of its JSON body",
		signsTime: true,
	},
	Slack: {
		proof: func(_ Hook, header http.Header, now time.Time) (proof, bool) {
			mac, ok := hexMAC(singleValue(header, slackSignature), "v0=")
			stamp := singleValue(header, slackTimestamp)
			return proof{macs: [][]byte{mac}, prefix: "v0:" + stamp + ":"}, ok && recent(stamp, now)
		},
		identify: func(_ Hook, header http.Header, body []byte) (id, name string) {
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
		idFrom:    "field event_id of its JSON body",
		signsTime: true,
	},
	HMAC: {
		proof: func(h Hook, header http.Header, _ time.Time) (proof, bool) {
			p := proof{macs: anyMACs(singleValue(header, h.Header))}
			return p, len(p.macs) > 0
		},
		identify: Hook.identifyAny,
		sign: func(h Hook, d Delivery, _ time.Time) http.Header {
			return h.signAny(d, "sha256="+hex.EncodeToString(h.mac("", d.Body)))
		},
	},
	Token: {
		proof: func(h Hook, header http.Header, _ time.Time) (proof, bool) {
			given := singleValue(header, h.Header)
			if h.Header == authorization {
				given = credential(given)
			}
			return h.tokenProof(given)
		},
		identify: Hook.identifyAny,
		sign: func(h Hook, d Delivery, _ time.Time) http.Header {
			if h.Header == authorization {
				return h.signAny(d, "Bearer "+h.Secret)
			}
			return h.signAny(d, h.Secret)
		},
	},
}

// tokenProof compares a token with the secret, in constant time.
func (h Hook) tokenProof(token string) (proof, bool) {
	given, want := sha256.Sum256([]byte(token)), sha256.Sum256(h.key)
	ok := subtle.ConstantTimeCompare(given[:], want[:]) == 1
	return proof{token: ok}, ok
}

// credential returns the token of a header Authorization: a bearer token, or the password of
// the Basic scheme (RFC 7617), whatever the user.
func credential(authorization string) string {
	scheme, value, _ := strings.Cut(authorization, " ")
	value = strings.TrimSpace(value)
	switch strings.ToLower(scheme) {
	case "bearer":
		return value
	case "basic":
		if pair, err := base64.StdEncoding.DecodeString(value); err == nil {
			_, password, _ := strings.Cut(string(pair), ":")
			return password
		}
	}
	return ""
}

// identifyAny returns the id and the name that the spec's headers have. An id with other
// characters than [validID] allows is hashed.
func (h Hook) identifyAny(header http.Header, body []byte) (id, name string) {
	if h.IDHeader != "" {
		id = singleValue(header, h.IDHeader)
	}
	if id != "" && !validID(id) {
		sum := sha256.Sum256([]byte(id))
		id = hex.EncodeToString(sum[:])
	}
	if h.EventHeader == "" {
		return id, fieldsOf(body).Type
	}
	return id, singleValue(header, h.EventHeader)
}

// signAny returns the headers of a delivery with a signature or token.
func (h Hook) signAny(d Delivery, proof string) http.Header {
	out := http.Header{h.Header: {proof}}
	if h.IDHeader != "" {
		out.Set(h.IDHeader, d.ID)
	}
	if h.EventHeader != "" && d.Event != "" {
		out.Set(h.EventHeader, d.Event)
	}
	return out
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

// anyMACs decodes signatures that are separated by commas, each in hexadecimal digits or
// base64, after any prefix that ends with "=": "sha256=MAC", "v1=MAC,v1=MAC", or "MAC".
func anyMACs(s string) (out [][]byte) {
	for one := range strings.SplitSeq(s, ",") {
		if len(out) == maxSignatures {
			break
		}
		one = strings.TrimSpace(one)
		_, rest, _ := strings.Cut(one, "=")
		for _, encoded := range []string{one, rest} {
			if mac, ok := hexMAC(encoded, ""); ok {
				out = append(out, mac)
			} else if mac, err := base64.StdEncoding.DecodeString(encoded); err == nil && len(mac) == sha256.Size {
				out = append(out, mac)
			}
		}
	}
	return out
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
