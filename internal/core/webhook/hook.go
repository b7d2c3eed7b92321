package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strings"

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
)

// forms are the names of the forms, for errors.
const forms = "github, standard, gitlab, stripe, or slack"

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
	// MaxBytes bounds a body, and Queue the unhandled events; zero means the
	// default.
	MaxBytes int64
	Queue    int
	// BodyOnce drops a repeated body, whatever its id.
	BodyOnce bool
}

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
	return h, nil
}

// mac returns the signature of a prefix and a body.
func (h Hook) mac(prefix string, body []byte) []byte {
	m := hmac.New(sha256.New, h.key)
	m.Write([]byte(prefix))
	m.Write(body)
	return m.Sum(nil)
}
