package health

import (
	"cmp"
	"fmt"
	"sync"
	"time"

	"lilac/internal/foundation/fault"
)

// Calls remembers how the last calls of an outside service went. It is safe for concurrent use, and
// its zero value is ready. A restart resets it.
type Calls struct {
	mu               sync.Mutex
	answered, failed time.Time
	advice           string
}

// Answered records a call that succeeded.
func (c *Calls) Answered(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answered = at
}

// Failed records a call that failed. A request that the service refuses is no failure: it can be
// repeated in another form, and it shows that the service can be reached and accepts the key.
func (c *Calls) Failed(err error, at time.Time) {
	wire := fault.ToWire(err)
	advice := cmp.Or(wayAdvice[wire.Code], callAdvice[wire.Kind])
	c.mu.Lock()
	defer c.mu.Unlock()
	if wire.Kind == fault.Invalid {
		c.failed = time.Time{}
	}
	if advice == "" {
		return
	}
	c.failed, c.advice = at, advice
}

// wayAdvice is about the way to the service, by the code of the fault, and callAdvice about the service.
// They say what happened, and what to do. They contain no text of the service, because reports are public.
var wayAdvice = map[string]string{
	fault.CodeCertificate:  "the certificate of the provider is not accepted. If an authority of your organization signed it, name its file in SSL_CERT_FILE",
	fault.CodeProxyLogin:   "the proxy of this network does not accept the login in HTTPS_PROXY",
	fault.CodeProxyRefuses: "the proxy of this network refuses to connect to the provider. Allow it there",
}

var callAdvice = map[fault.Kind]string{
	fault.Unauthenticated: "the provider does not accept the API key. Enter another one under Set up",
	fault.Denied:          "the provider refuses: look at the account's credit and at the models that the key may use",
	fault.NotFound:        "the provider does not know the model, or its address is wrong. Test it under Set up",
	fault.RateLimited:     "the provider asks to slow down. Wait, or configure a second key or model",
	fault.Unavailable:     "the provider cannot be reached or has trouble. Check its address and the network, or configure a second model",
	fault.Timeout:         "the provider took too long. Wait, or configure a second model",
}

// Part returns the named part of a report: a warning if the last call failed.
func (c *Calls) Part(name string, now time.Time) Part {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := "no answer since the start"
	if !c.answered.IsZero() {
		last = "last answer " + ago(now.Sub(c.answered))
	}
	switch {
	case c.failed.After(c.answered):
		return Part{Name: name, Status: Warning, Message: fmt.Sprintf("the last call failed %s: %s (%s)", ago(now.Sub(c.failed)), c.advice, last)}
	case c.answered.IsZero():
		return Part{Name: name, Status: OK}
	}
	return Part{Name: name, Status: OK, Message: last}
}

// ago formats how long ago something was, in the largest unit.
func ago(d time.Duration) string {
	for _, unit := range []struct {
		length time.Duration
		name   string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "min"}} {
		if d >= unit.length {
			return fmt.Sprintf("%d %s ago", d/unit.length, unit.name)
		}
	}
	return fmt.Sprintf("%d s ago", max(0, d/time.Second))
}
