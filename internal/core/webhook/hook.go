package webhook

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"

	"lilac/internal/foundation/fault"
)

// Form is a form of signatures.
type Form string

// The forms.
const (
	// GitHub signs the body: X-Hub-Signature-256, with X-GitHub-Delivery and
	// X-GitHub-Event.
	GitHub Form = "github"
	// Standard is the form of Standard Webhooks: webhook-id, webhook-timestamp, and
	// webhook-signature, or the same with svix- instead of webhook-.
	Standard Form = "standard"
	// GitLab sends its secret as a token: X-Gitlab-Token, with Idempotency-Key (17.4 and
	// later), X-Gitlab-Event-UUID, and X-Gitlab-Event.
	GitLab Form = "gitlab"
	// Stripe signs the time and the body: Stripe-Signature.
	Stripe Form = "stripe"
	// Slack signs the time and the body: X-Slack-Signature and X-Slack-Request-Timestamp.
	Slack Form = "slack"
	// HMAC is for any other sender that signs the body with HMAC-SHA256: [Spec.Header] has
	// the signature.
	HMAC Form = "hmac"
	// Token is for any sender that cannot sign: [Spec.Header] has the secret itself.
	Token Form = "token"
)

// forms are the names of the forms, for errors.
const forms = "github, standard, gitlab, stripe, slack, hmac, or token"

const (
	// MinSecret is the minimum length of a secret, in bytes.
	MinSecret = 16
	// DefaultMaxBytes is the default limit of a body, and MaxBytes the highest limit: the
	// body is part of an event on the bus.
	DefaultMaxBytes = 1 << 20
	MaxBytes        = 4 << 20
	// DefaultQueue is the default limit of unhandled events of a webhook.
	DefaultQueue = 1000
)

// secretPrefix is the prefix of a secret of Standard Webhooks.
const secretPrefix = "whsec_"

// Spec is the configuration of a webhook.
type Spec struct {
	Name   string
	Form   Form // default GitHub
	Secret string
	// Header is the header with the signature (required for [HMAC]) or the token (default
	// Authorization). IDHeader and EventHeader are the headers with the id of a delivery and
	// the name of its event. Without an IDHeader, a delivery has no id. The other forms fix
	// all three.
	Header, IDHeader, EventHeader string
	// MaxBytes bounds a body, and Queue the unhandled events; zero means the
	// default.
	MaxBytes int64
	Queue    int
	// BodyOnce drops a repeated body, whatever its id.
	BodyOnce bool
}

// Replayable reports whether somebody who can read a delivery can send it again under another
// id. The empty form is the default one.
func (f Form) Replayable() bool { return !schemes[f].signsTime }

// Hook is a validated webhook.
type Hook struct {
	Spec
	key []byte
}

// New validates a spec. Its errors name the invalid field.
func New(s Spec) (Hook, error) {
	if s.Form == "" {
		s.Form = GitHub
	}
	if s.MaxBytes == 0 {
		s.MaxBytes = DefaultMaxBytes
	}
	if s.Queue == 0 {
		s.Queue = DefaultQueue
	}
	h := Hook{Spec: s, key: []byte(s.Secret)}
	switch {
	case schemes[s.Form].proof == nil:
		return Hook{}, fault.InvalidField("form", "The webhook %s has the unknown form %q. Use %s.", s.Name, s.Form, forms)
	case s.Secret == "":
		return Hook{}, fault.InvalidField("secret", "The webhook %s has no secret, so anybody could send deliveries. Set a secret, preferably as ${NAME} from the environment.", s.Name)
	case s.MaxBytes < 0 || s.MaxBytes > MaxBytes:
		return Hook{}, fault.InvalidField("maxBytes", "The webhook %s accepts bodies of %d bytes. Use at most 4MiB.", s.Name, s.MaxBytes)
	case s.Queue < 0:
		return Hook{}, fault.InvalidField("queue", "The webhook %s has a negative queue. Use 0 for the default.", s.Name)
	}
	if s.Form == Standard {
		var err error
		if h.key, err = base64.StdEncoding.DecodeString(strings.TrimPrefix(s.Secret, secretPrefix)); err != nil {
			return Hook{}, fault.InvalidField("secret", "The secret of the webhook %s is not a secret of Standard Webhooks. Use whsec_ and base64.", s.Name)
		}
	}
	if len(h.key) < MinSecret {
		return Hook{}, fault.InvalidField("secret", "The secret of the webhook %s is too short. Use at least %d bytes.", s.Name, MinSecret)
	}
	if err := h.normalizeHeaders(); err != nil {
		return Hook{}, err
	}
	return h, nil
}

// normalizeHeaders sets the default of Header, and writes all three in canonical form.
func (s *Spec) normalizeHeaders() error {
	general := s.Form == HMAC || s.Form == Token
	if s.Form == Token {
		s.Header = cmp.Or(s.Header, authorization)
	}
	if s.Form == HMAC && s.Header == "" {
		return fault.InvalidField("header", "The webhook %s needs the name of the header that has the signature, such as X-Signature.", s.Name)
	}
	for _, one := range []struct {
		field string
		name  *string
	}{{"header", &s.Header}, {"idHeader", &s.IDHeader}, {"eventHeader", &s.EventHeader}} {
		if *one.name == "" {
			continue
		}
		if !general {
			return fault.InvalidField(one.field, "The form %s has fixed headers. Remove %s from the webhook %s, or use the form hmac or token.", s.Form, one.field, s.Name)
		}
		if !httpguts.ValidHeaderFieldName(*one.name) {
			return fault.InvalidField(one.field, "The webhook %s has the header %q, which is not the name of a header.", s.Name, *one.name)
		}
		*one.name = http.CanonicalHeaderKey(*one.name)
		// The id and the name become part of the event, which people and the agent read.
		if one.name != &s.Header && (*one.name == s.Header || *one.name == authorization || *one.name == "Cookie") {
			return fault.InvalidField(one.field, "The webhook %s has the header %s as %s, which would put a secret into the event. Use another header.", s.Name, *one.name, one.field)
		}
	}
	return nil
}

// mac returns the signature of a prefix and a body.
func (h Hook) mac(prefix string, body []byte) []byte {
	m := hmac.New(sha256.New, h.key)
	m.Write([]byte(prefix))
	m.Write(body)
	return m.Sum(nil)
}
