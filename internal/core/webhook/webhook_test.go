package webhook_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/core/webhook"
	"lilac/internal/foundation/fault"
)

const secret = "It's a Secret to Everybody"

var (
	now          = time.Unix(1_790_000_000, 0)
	standardTest = "whsec_" + base64.StdEncoding.EncodeToString([]byte("0123456789abcdef01234567"))
)

func hook(t testing.TB, s webhook.Spec) webhook.Hook {
	t.Helper()
	if s.Name == "" {
		s.Name = "ci"
	}
	if s.Secret == "" {
		s.Secret = secret
	}
	h, err := webhook.New(s)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// The values of the two documents that define the forms.
func TestThePublishedExamples(t *testing.T) {
	gh := hook(t, webhook.Spec{})
	header := http.Header{}
	header.Set("X-Hub-Signature-256", "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17")
	header.Set("X-GitHub-Delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958")
	header.Set("X-GitHub-Event", "push")
	d, err := gh.Verify(header, []byte("Hello, World!"), now)
	if err != nil || d.ID != "72d3162e-cc78-11e3-81ab-4c9367dc0958" || d.Event != "push" {
		t.Errorf("%+v, %v", d, err)
	}

	st := hook(t, webhook.Spec{Form: webhook.Standard, Secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"})
	header = http.Header{}
	header.Set("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek")
	header.Set("webhook-timestamp", "1614265330")
	header.Set("webhook-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
	d, err = st.Verify(header, []byte(`{"test": 2432232314}`), time.Unix(1614265330, 0))
	if err != nil || d.ID != "msg_p5jXN8AQM9LWM0D4loKWxJek" {
		t.Errorf("%+v, %v", d, err)
	}
}

// TestForgedAndReplayed changes one thing of a good delivery at a time. The
// control takes it without the check, which shows that nothing else refuses it.
func TestForgedAndReplayed(t *testing.T) {
	body := []byte(`{"type":"build.failed","n":1}`)
	other := "another secret of twenty"
	type change func(h http.Header, body *[]byte)
	set := func(name, value string) change {
		return func(h http.Header, _ *[]byte) { h.Set(name, value) }
	}
	text := func(s string) change { return func(_ http.Header, b *[]byte) { *b = []byte(s) } }
	late := func(by time.Duration) change {
		return set("webhook-timestamp", strconv.FormatInt(now.Add(by).Unix(), 10))
	}
	resign := func(form webhook.Form, withSecret, id string, at time.Time) change {
		return func(h http.Header, b *[]byte) {
			signer := hook(t, webhook.Spec{Form: form, Secret: withSecret})
			for name, v := range signer.Sign(webhook.Delivery{ID: id, Event: "push", Body: *b}, at) {
				h[name] = v
			}
		}
	}
	cases := map[string]struct {
		form   webhook.Form
		change change
		good   bool
	}{
		"github: as it was":         {webhook.GitHub, func(http.Header, *[]byte) {}, true},
		"github: upper-case digits": {webhook.GitHub, func(h http.Header, _ *[]byte) { upperMAC(h) }, true},
		"github: another body":      {webhook.GitHub, text(`{"n":2}`), false},
		"github: a longer body":     {webhook.GitHub, text(string(body) + " "), false},
		"github: no signature":      {webhook.GitHub, func(h http.Header, _ *[]byte) { h.Del("X-Hub-Signature-256") }, false},
		"github: empty":             {webhook.GitHub, set("X-Hub-Signature-256", ""), false},
		"github: empty mac":         {webhook.GitHub, set("X-Hub-Signature-256", "sha256="), false},
		"github: cut":               {webhook.GitHub, func(h http.Header, _ *[]byte) { cutMAC(h) }, false},
		"github: sha1":              {webhook.GitHub, func(h http.Header, _ *[]byte) { sha1MAC(h) }, false},
		"github: zeros":             {webhook.GitHub, set("X-Hub-Signature-256", "sha256="+strings.Repeat("0", 64)), false},
		"github: twice":             {webhook.GitHub, func(h http.Header, _ *[]byte) { h.Add("X-Hub-Signature-256", h.Get("X-Hub-Signature-256")) }, false},
		"github: another secret":    {webhook.GitHub, resign(webhook.GitHub, other, "d1", now), false},
		"github: in standard form": {webhook.GitHub, func(h http.Header, b *[]byte) {
			h.Del("X-Hub-Signature-256")
			resign(webhook.Standard, standardTest, "d1", now)(h, b)
		}, false},
		"standard: as it was":        {webhook.Standard, func(http.Header, *[]byte) {}, true},
		"standard: one of several":   {webhook.Standard, func(h http.Header, _ *[]byte) { several(h, "v1a,xx v1,AAAA ", " v2,zz") }, true},
		"standard: at the edge":      {webhook.Standard, resign(webhook.Standard, standardTest, "d1", now.Add(-webhook.Tolerance)), true},
		"standard: another body":     {webhook.Standard, text(`{"n":2}`), false},
		"standard: another id":       {webhook.Standard, set("webhook-id", "d2"), false},
		"standard: replayed later":   {webhook.Standard, resign(webhook.Standard, standardTest, "d1", now.Add(-webhook.Tolerance-time.Second)), false},
		"standard: from the future":  {webhook.Standard, resign(webhook.Standard, standardTest, "d1", now.Add(webhook.Tolerance+time.Second)), false},
		"standard: time moved":       {webhook.Standard, late(time.Minute), false},
		"standard: time with a sign": {webhook.Standard, set("webhook-timestamp", "+1790000000"), false},
		"standard: no time":          {webhook.Standard, set("webhook-timestamp", ""), false},
		"standard: no signature":     {webhook.Standard, func(h http.Header, _ *[]byte) { h.Del("webhook-signature") }, false},
		"standard: of version 1a": {webhook.Standard, func(h http.Header, _ *[]byte) {
			h.Set("webhook-signature", strings.Replace(h.Get("webhook-signature"), "v1,", "v1a,", 1))
		}, false},
		"standard: far behind":     {webhook.Standard, func(h http.Header, _ *[]byte) { several(h, strings.Repeat("v1,AAAA ", 16), "") }, false},
		"standard: another secret": {webhook.Standard, resign(webhook.Standard, "whsec_"+base64.StdEncoding.EncodeToString([]byte(other)), "d1", now), false},
		"standard: in github form": {webhook.Standard, func(h http.Header, b *[]byte) {
			h.Del("webhook-signature")
			resign(webhook.GitHub, secret, "d1", now)(h, b)
		}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			h := hook(t, webhook.Spec{Form: c.form, Secret: map[webhook.Form]string{webhook.GitHub: secret, webhook.Standard: standardTest}[c.form]})
			sent := append([]byte(nil), body...)
			header := h.Sign(webhook.Delivery{ID: "d1", Event: "push", Body: sent}, now)
			c.change(header, &sent)
			d, err := h.Verify(header, sent, now)
			if (err == nil) != c.good {
				t.Errorf("accepted %t (%+v, %v), want %t", err == nil, d, err, c.good)
			}
			if !c.good {
				if wire := fault.ToWire(err); wire.Kind != fault.Unauthenticated || wire.Code != "signature_invalid" {
					t.Errorf("refused as %+v: every refusal says the same", wire)
				}
				if _, err := webhook.Unchecked(h, header, sent); err != nil {
					t.Errorf("control: without the check it is refused, too: %v", err)
				}
			}
		})
	}
}

func upperMAC(h http.Header) {
	h.Set("X-Hub-Signature-256", "sha256="+strings.ToUpper(strings.TrimPrefix(h.Get("X-Hub-Signature-256"), "sha256=")))
}

func cutMAC(h http.Header) { h.Set("X-Hub-Signature-256", h.Get("X-Hub-Signature-256")[:20]) }

func sha1MAC(h http.Header) {
	h.Set("X-Hub-Signature-256", "sha1="+strings.TrimPrefix(h.Get("X-Hub-Signature-256"), "sha256="))
}

func several(h http.Header, before, after string) {
	h.Set("webhook-signature", before+h.Get("webhook-signature")+after)
}

// The text that is signed has dots between id, time and body. A body that
// begins with a number and a dot must not be read as another time.
func TestAnIDWithADotIsNoOtherDelivery(t *testing.T) {
	h := hook(t, webhook.Spec{Form: webhook.Standard, Secret: standardTest})
	stamp := strconv.FormatInt(now.Unix(), 10)
	header := h.Sign(webhook.Delivery{ID: "a", Body: []byte(stamp + ".rest")}, time.Unix(1000, 0))
	header.Set("webhook-id", "a.1000")
	header.Set("webhook-timestamp", stamp)
	if d, err := h.Verify(header, []byte("rest"), now); err == nil {
		t.Errorf("an old delivery was taken for %+v", d)
	}
}

func TestADeliveryNeedsAnID(t *testing.T) {
	h := hook(t, webhook.Spec{})
	for _, id := range []string{"", " ", "a b", "a:b", "ä", strings.Repeat("x", 129)} {
		header := h.Sign(webhook.Delivery{ID: "x", Body: []byte("{}")}, now)
		header.Set("X-GitHub-Delivery", id)
		if _, err := h.Verify(header, []byte("{}"), now); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%q: %v", id, err)
		}
	}
}

func TestSpecs(t *testing.T) {
	for name, c := range map[string]struct {
		spec  webhook.Spec
		field string
	}{
		"no secret":               {webhook.Spec{}, "secret"},
		"a short secret":          {webhook.Spec{Secret: "123456789012345"}, "secret"},
		"a short standard secret": {webhook.Spec{Form: webhook.Standard, Secret: "whsec_c2hvcnQ="}, "secret"},
		"not base64":              {webhook.Spec{Form: webhook.Standard, Secret: "whsec_not base64, is it"}, "secret"},
		"an unknown form":         {webhook.Spec{Form: "bitbucket", Secret: secret}, "form"},
		"too large":               {webhook.Spec{Secret: secret, MaxBytes: webhook.MaxBytes + 1}, "maxBytes"},
		"a negative queue":        {webhook.Spec{Secret: secret, Queue: -1}, "queue"},
	} {
		if _, err := webhook.New(c.spec); fault.ToWire(err).Field != c.field {
			t.Errorf("%s: %v, want a fault of %s", name, err, c.field)
		}
	}
}

func TestEvent(t *testing.T) {
	h := hook(t, webhook.Spec{})
	header := http.Header{}
	header.Set("User-Agent", "GitHub-Hookshot/0\x1b[31mred")
	header.Set("Authorization", "Bearer of-somebody")
	header.Set("Cookie", "a=b")
	header.Set("X-Hub-Signature-256", "sha256=00")
	for name, c := range map[string]struct{ contentType, body, want string }{
		"an object":            {"application/json; charset=utf-8", ` {"a" : [1, 2]} `, `{"a":[1,2]}`},
		"a kind of JSON":       {"application/cloudevents+json", `{"a":1}`, `{"a":1}`},
		"text":                 {"text/plain", "deployed\n", `"deployed\n"`},
		"JSON without type":    {"", ` {"a":1}`, `{"a":1}`},
		"a list without it":    {"", `[1]`, `[1]`},
		"text without a type":  {"", "7", `"7"`},
		"almost JSON":          {"", `{"a":1`, `"{\"a\":1"`},
		"JSON said to be text": {"text/plain", `{"a":1}`, `"{\"a\":1}"`},
		"a form with JSON":     {"application/x-www-form-urlencoded", "payload=%7B%22a%22%3A1%7D&x=y", `{"a":1}`},
		"another form":         {"application/x-www-form-urlencoded", "a=b", `"a=b"`},
		"an empty text":        {"text/plain", "", `""`},
		"a number":             {"application/json", "7", "7"},
		"JSON that is none":    {"application/json", "{", ""},
		"nothing as JSON":      {"application/json", "", ""},
		"bytes":                {"application/octet-stream", "\xff\xff", ""},
		"JSON with bytes":      {"application/json", "\"\xff\"", ""},
		"a form without any":   {"application/x-www-form-urlencoded", "payload=nonsense", ""},
	} {
		t.Run(name, func(t *testing.T) {
			header.Set("Content-Type", c.contentType)
			e, err := h.EnvEvent(webhook.Delivery{ID: "d1", Event: "push", Body: []byte(c.body)}, header)
			if c.want == "" {
				if fault.KindOf(err) != fault.Invalid {
					t.Errorf("%v", err)
				}
				return
			}
			if err != nil || e.Validate() != nil {
				t.Fatal(err, e.Validate())
			}
			var p webhook.Payload
			if err := json.Unmarshal(e.Payload, &p); err != nil {
				t.Fatal(err)
			}
			want := webhook.Payload{Name: "ci", Event: "push", DeliveryID: "d1", Body: json.RawMessage(c.want), Headers: map[string]string{"user-agent": "GitHub-Hookshot/0[31mred"}}
			if c.contentType != "" {
				want.Headers["content-type"] = c.contentType
			}
			if diff := cmp.Diff(want, p); diff != "" {
				t.Error(diff)
			}
			if e.ID != "webhook:ci:d1" || e.Metadata.EnvName != "ci" || e.Metadata.Source != "env" || e.Metadata.TriggerSessionID != "" {
				t.Errorf("%+v", e)
			}
		})
	}
}

func FuzzSignatureHeaders(f *testing.F) {
	f.Add("sha256=00", "v1,AAAA v1a,zz", "1790000000", "d1", []byte("{}"))
	f.Add("sha256=", " ", "-1", "a.b", []byte(""))
	gh, st := hook(f, webhook.Spec{}), hook(f, webhook.Spec{Form: webhook.Standard, Secret: standardTest})
	f.Fuzz(func(t *testing.T, hub, standard, stamp, id string, body []byte) {
		webhook.HexMAC(hub, "sha256=")
		if n := len(webhook.StandardMACs(standard)); n > 16 {
			t.Errorf("%d signatures are tried", n)
		}
		header := http.Header{
			"X-Hub-Signature-256": {hub}, "X-Github-Delivery": {id}, "Webhook-Id": {id}, "Webhook-Timestamp": {stamp}, "Webhook-Signature": {standard},
		}
		for _, h := range []webhook.Hook{gh, st} {
			if d, err := h.Verify(header, body, now); err == nil {
				t.Errorf("%+v was taken without the secret", d)
			}
		}
		// What is signed is taken exactly when it has an id that can be one.
		header = st.Sign(webhook.Delivery{ID: id, Body: body}, now)
		if _, err := st.Verify(header, body, now); (err == nil) != (id != "" && len(id) <= 128 && strings.Trim(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") == "") {
			t.Errorf("signed with the id %q: %v", id, err)
		}
	})
}

func FuzzPayload(f *testing.F) {
	f.Add("application/json", []byte(`{"a":[1,{"b":null}]}`), "push", "agent")
	f.Add("application/x-www-form-urlencoded", []byte("payload=%7B%7D"), "\x1b[2J", strings.Repeat("ä", 200))
	f.Add("text/plain", []byte("x\x00y"), "", "")
	h := hook(f, webhook.Spec{})
	f.Fuzz(func(t *testing.T, contentType string, body []byte, name, agent string) {
		e, err := h.EnvEvent(webhook.Delivery{ID: "d1", Event: name, Body: body}, http.Header{"Content-Type": {contentType}, "User-Agent": {agent}})
		if err != nil {
			if fault.KindOf(err) != fault.Invalid {
				t.Error(err)
			}
			return
		}
		if err := e.Validate(); err != nil {
			t.Error(err)
		}
		var p webhook.Payload
		if err := json.Unmarshal(e.Payload, &p); err != nil {
			t.Error(err)
		}
		for _, v := range p.Headers {
			if len(v) > 200 || strings.ContainsAny(v, "\n\x1b") {
				t.Errorf("the header %q is kept", v)
			}
		}
	})
}
