package health_test

import (
	"testing"
	"time"

	"lilac/internal/foundation/fault"
	"lilac/internal/telemetry/health"
)

func TestCallsAreReported(t *testing.T) {
	begin := time.UnixMilli(1_760_000_000_000)
	refused, dead := fault.New(fault.Unauthenticated, "No."), fault.New(fault.Unavailable, "127.0.0.1:1 is away.")
	for _, tt := range []struct {
		name  string
		calls func(c *health.Calls)
		want  health.Part
	}{
		{"none", func(*health.Calls) {}, health.Part{Name: "model", Status: health.OK}},
		{"an answer", func(c *health.Calls) { c.Answered(begin.Add(time.Minute)) }, health.Part{Name: "model", Status: health.OK, Message: "last answer 1 h ago"}},
		{
			"a failure", func(c *health.Calls) { c.Failed(dead, begin.Add(119*time.Minute+50*time.Second)) },
			health.Part{Name: "model", Status: health.Warning, Message: "the last call failed 10 s ago: the provider cannot be reached or has trouble. Check its address and the network, or configure a second model (no answer since the start)"},
		},
		{
			"a failure after an answer", func(c *health.Calls) { c.Answered(begin); c.Failed(refused, begin.Add(90*time.Minute)) },
			health.Part{Name: "model", Status: health.Warning, Message: "the last call failed 30 min ago: the provider does not accept the API key. Enter another one under Set up (last answer 2 h ago)"},
		},
		{
			"a proxy on the way", func(c *health.Calls) {
				c.Failed(&fault.Error{Kind: fault.Denied, Code: fault.CodeProxyLogin, Message: fault.ProxyLogin}, begin)
			},
			health.Part{Name: "model", Status: health.Warning, Message: "the last call failed 2 h ago: the proxy of this network does not accept the login in HTTPS_PROXY (no answer since the start)"},
		},
		{"an answer after a failure", func(c *health.Calls) { c.Failed(refused, begin); c.Answered(begin.Add(time.Hour)) }, health.Part{Name: "model", Status: health.OK, Message: "last answer 1 h ago"}},
		{"a request that is too long after a failure", func(c *health.Calls) {
			c.Failed(refused, begin)
			c.Failed(fault.New(fault.Invalid, "Too long."), begin)
		}, health.Part{Name: "model", Status: health.OK}},
		{"a call that was stopped after a failure", func(c *health.Calls) { c.Failed(dead, begin); c.Failed(fault.New(fault.Cancelled, "Stopped."), begin) }, health.Part{Name: "model", Status: health.Warning, Message: "the last call failed 2 h ago: the provider cannot be reached or has trouble. Check its address and the network, or configure a second model (no answer since the start)"}},
		{"a request that is too long", func(c *health.Calls) { c.Failed(fault.New(fault.Invalid, "Too long."), begin) }, health.Part{Name: "model", Status: health.OK}},
	} {
		var c health.Calls
		tt.calls(&c)
		if got := c.Part("model", begin.Add(2*time.Hour)); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}
