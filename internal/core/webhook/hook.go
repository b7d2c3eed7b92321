package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strings"

	"lilac/internal/foundation/fault"
)

// Form is how a sender signs.
type Form string

// The forms.
const (
	// GitHub signs the body: X-Hub-Signature-256, with X-GitHub-Delivery and
	// X-GitHub-Event beside it.
	GitHub Form = "github"
	// Standard is that of the Standard Webhooks: webhook-id, webhook-timestamp
	// and webhook-signature.
	Standard Form = "standard"
)

const (
	// MinSecret is the least length of a secret, in bytes.
	MinSecret = 16
	// DefaultMaxBytes is how large a body may be if nothing else is said, and
	// MaxBytes what may be said at most: the body rides on the bus.
	DefaultMaxBytes = 1 << 20
	MaxBytes        = 4 << 20
	// DefaultQueue is how many events of a webhook may wait to be handled.
	DefaultQueue = 1000
)

// secretPrefix begins a secret of the Standard Webhooks.
const secretPrefix = "whsec_"

// Spec is what an operator says of a webhook.
type Spec struct {
	Name   string
	Form   Form // default GitHub
	Secret string
	// MaxBytes is how large a body may be, Queue how many events may wait; zero
	// is the default.
	MaxBytes int64
	Queue    int
	// BodyOnce drops a body that came before, whatever its id.
	BodyOnce bool
}

// Hook is a webhook that can be received.
type Hook struct {
	Spec
	key []byte
}

// New checks a spec. Its errors name the field that is wrong.
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
	case s.Form != GitHub && s.Form != Standard:
		return Hook{}, fault.InvalidField("form", "The webhook %s has the unknown form %q; use github or standard.", s.Name, s.Form)
	case s.Secret == "":
		return Hook{}, fault.InvalidField("secret", "The webhook %s has no secret, so anybody could send one. Set it, best as ${NAME} from the environment.", s.Name)
	case s.MaxBytes < 0 || s.MaxBytes > MaxBytes:
		return Hook{}, fault.InvalidField("maxBytes", "The webhook %s takes bodies of %d bytes; it may be at most 4MiB.", s.Name, s.MaxBytes)
	case s.Queue < 0:
		return Hook{}, fault.InvalidField("queue", "The webhook %s has a negative queue.", s.Name)
	}
	if s.Form == Standard {
		var err error
		if h.key, err = base64.StdEncoding.DecodeString(strings.TrimPrefix(s.Secret, secretPrefix)); err != nil {
			return Hook{}, fault.InvalidField("secret", "The secret of the webhook %s is not one of the Standard Webhooks: whsec_ and base64.", s.Name)
		}
	}
	if len(h.key) < MinSecret {
		return Hook{}, fault.InvalidField("secret", "The secret of the webhook %s is shorter than %d bytes.", s.Name, MinSecret)
	}
	return h, nil
}

func (h Hook) mac(parts ...[]byte) []byte {
	m := hmac.New(sha256.New, h.key)
	for _, p := range parts {
		m.Write(p)
	}
	return m.Sum(nil)
}
