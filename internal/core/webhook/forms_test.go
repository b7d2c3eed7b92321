package webhook_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"lilac/internal/core/webhook"
	"lilac/internal/foundation/fault"
)

const slackCommand = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar" +
	"&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J" +
	"%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"

// Slack's values are those of its documentation. The Stripe signature was computed with
// another implementation of HMAC.
func TestFormsOfOtherSenders(t *testing.T) {
	for name, c := range map[string]struct {
		form          webhook.Form
		secret        string
		header        map[string]string
		body          string
		at            int64
		wantID, event string
	}{
		"slack": {
			webhook.Slack, "8f742231b10e8888abcd99yyyzzz85a5",
			map[string]string{"X-Slack-Request-Timestamp": "1531420618", "X-Slack-Signature": "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"},
			slackCommand, 1531420618, "a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503", "",
		},
		"stripe": {
			webhook.Stripe, "whsec_test_secret_0123456789",
			map[string]string{"Stripe-Signature": "t=1492774577,v1=00,v1=115f99a56b1b684ed93a78a13bc0e53f67c4e2d7cd4075ddb343769f2f8e6eda,v0=6ffbb59b2300aae63f272406069a9788598b792a944a07aba816edb039989a39"},
			`{"id":"evt_1","type":"charge.failed"}`, 1492774577, "evt_1", "charge.failed",
		},
		"gitlab": {
			webhook.GitLab, secret,
			map[string]string{"X-Gitlab-Token": secret, "X-Gitlab-Event": "Pipeline Hook", "Idempotency-Key": "f5e57e8a-1"},
			`{}`, 0, "f5e57e8a-1", "Pipeline Hook",
		},
		"an older gitlab": {
			webhook.GitLab, secret,
			map[string]string{"X-Gitlab-Token": secret, "X-Gitlab-Event-UUID": "13792a34"},
			`{}`, 0, "13792a34-44136fa355b3678a", "",
		},
		"svix names": {
			webhook.Standard, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
			map[string]string{"svix-id": "msg_p5jXN8AQM9LWM0D4loKWxJek", "svix-timestamp": "1614265330", "svix-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="},
			`{"test": 2432232314}`, 1614265330, "msg_p5jXN8AQM9LWM0D4loKWxJek", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := hook(t, webhook.Spec{Form: c.form, Secret: c.secret})
			header := http.Header{}
			for key, v := range c.header {
				header.Set(key, v)
			}
			at := time.Unix(c.at, 0)
			if err := h.CheckHeaders(header, at); err != nil {
				t.Errorf("refused by its headers: %v", err)
			}
			d, err := h.Verify(header, []byte(c.body), at)
			if err != nil || d.ID != c.wantID || d.Event != c.event {
				t.Errorf("%+v, %v", d, err)
			}
		})
	}
}

// One thing of a good delivery is changed at a time.
func TestForgedDeliveriesOfOtherSenders(t *testing.T) {
	body := []byte(`{"id":"evt_1","event_id":"Ev1","type":"t"}`)
	for _, form := range []webhook.Form{webhook.GitLab, webhook.Stripe, webhook.Slack} {
		h := hook(t, webhook.Spec{Form: form})
		good := h.Sign(webhook.Delivery{ID: "d1", Body: body}, now)
		if _, err := h.Verify(good, body, now); err != nil {
			t.Fatalf("%s: %v", form, err)
		}
		refused := func(what string, header http.Header, body []byte, at time.Time) {
			t.Helper()
			if _, err := h.Verify(header, body, at); fault.KindOf(err) != fault.Unauthenticated {
				t.Errorf("%s, %s: %v", form, what, err)
			}
		}
		for name := range good {
			if name == "Idempotency-Key" {
				continue
			}
			without := good.Clone()
			without.Del(name)
			refused("without "+name, without, body, now)
			twice := good.Clone()
			twice.Add(name, good.Get(name))
			refused("twice "+name, twice, body, now)
			cut := good.Clone()
			cut.Set(name, good.Get(name)[:len(good.Get(name))-1])
			refused("cut "+name, cut, body, now)
		}
		refused("another secret", hook(t, webhook.Spec{Form: form, Secret: "another secret of twenty"}).Sign(webhook.Delivery{ID: "d1", Body: body}, now), body, now)
		if form == webhook.GitLab {
			continue
		}
		refused("another body", good, append([]byte(" "), body...), now)
		refused("too old", good, body, now.Add(webhook.Tolerance+time.Second))
		refused("too new", good, body, now.Add(-webhook.Tolerance-time.Second))
	}
	// Headers of both names are not mixed.
	h := hook(t, webhook.Spec{Form: webhook.Standard, Secret: standardTest})
	header := h.Sign(webhook.Delivery{ID: "d1", Body: body}, now)
	header["Svix-Signature"] = header["Webhook-Signature"]
	header.Del("Webhook-Signature")
	if _, err := h.Verify(header, body, now); err == nil {
		t.Error("a delivery with headers of both names is accepted")
	}
}

// A server can refuse these without their bodies, and no others.
func TestHeadersThatNoBodyMakesValid(t *testing.T) {
	for _, form := range []webhook.Form{webhook.GitHub, webhook.Standard, webhook.GitLab, webhook.Stripe, webhook.Slack, webhook.HMAC, webhook.Token} {
		spec := webhook.Spec{Form: form}
		if form == webhook.HMAC {
			spec.Header = "X-Signature"
		}
		if form == webhook.Standard {
			spec.Secret = standardTest
		}
		h := hook(t, spec)
		if err := h.CheckHeaders(http.Header{}, now); fault.ToWire(err).Code != "signature_invalid" {
			t.Errorf("%s without headers: %v", form, err)
		}
		header := h.Sign(webhook.Delivery{ID: "d1", Body: []byte("{}")}, now)
		if err := h.CheckHeaders(header, now); err != nil {
			t.Errorf("%s with a signature: %v", form, err)
		}
		header.Set("Content-Encoding", "br")
		if err := h.CheckHeaders(header, now); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s with an unknown encoding: %v", form, err)
		}
	}
}

func compress(t *testing.T, body []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(body)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestCompressedBodies(t *testing.T) {
	h := hook(t, webhook.Spec{MaxBytes: 1000})
	body := []byte(`{"a":1}`)
	packed := compress(t, body)
	send := func(signed, sent []byte) (webhook.Delivery, error) {
		header := h.Sign(webhook.Delivery{ID: "d1", Body: signed}, now)
		header.Set("Content-Encoding", "gzip")
		return h.Verify(header, sent, now)
	}
	for name, signed := range map[string][]byte{"signed as it is sent": packed, "signed before it was compressed": body} {
		if d, err := send(signed, packed); err != nil || !bytes.Equal(d.Body, body) {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
	}
	bomb := compress(t, make([]byte, 1<<20))
	for name, c := range map[string]struct {
		signed, sent []byte
		want         fault.Kind
	}{
		"another body":       {[]byte("{}"), packed, fault.Unauthenticated},
		"not gzip":           {body, body, fault.Invalid},
		"cut":                {packed[:len(packed)-4], packed[:len(packed)-4], fault.Invalid},
		"too large":          {bomb, bomb, fault.TooLarge},
		"unsigned too large": {nil, bomb, fault.Unauthenticated},
	} {
		if _, err := send(c.signed, c.sent); fault.KindOf(err) != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

func TestByteOrderMarks(t *testing.T) {
	h := hook(t, webhook.Spec{})
	const text = `{"a":"ä"}`
	little, big := []byte{0xff, 0xfe}, []byte{0xfe, 0xff}
	for _, unit := range utf16.Encode([]rune(text)) {
		little = append(little, byte(unit), byte(unit>>8))
		big = append(big, byte(unit>>8), byte(unit))
	}
	for name, body := range map[string][]byte{"UTF-8": []byte("\xef\xbb\xbf" + text), "UTF-16LE": little, "UTF-16BE": big} {
		e, err := h.EnvEvent(webhook.Delivery{ID: "d1", Body: body}, http.Header{"Content-Type": {"application/json"}})
		var p webhook.Payload
		if err != nil || json.Unmarshal(e.Payload, &p) != nil || string(p.Body) != text {
			t.Errorf("%s: %s, %v", name, p.Body, err)
		}
	}
}

func TestSlackChecksTheAddress(t *testing.T) {
	body := []byte(`{"token":"x","challenge":"3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P","type":"url_verification"}`)
	h := hook(t, webhook.Spec{Form: webhook.Slack})
	d, err := h.Verify(h.Sign(webhook.Delivery{Body: body}, now), body, now)
	if err != nil {
		t.Fatal(err)
	}
	if text, ok := h.Challenge(d); !ok || !strings.HasPrefix(text, "3eZbrw1aBm2r") {
		t.Errorf("%q, %t", text, ok)
	}
	d.Event = "app_mention"
	if _, ok := h.Challenge(d); ok {
		t.Error("an event is taken for a check of the address")
	}
	if _, ok := hook(t, webhook.Spec{}).Challenge(webhook.Delivery{Event: "url_verification", Body: body}); ok {
		t.Error("a webhook of GitHub answers a check of Slack")
	}
}

func FuzzFormsOfOtherSenders(f *testing.F) {
	f.Add("t=1790000000,v1=00,v1=", "v0=00", "1790000000", "token", []byte(`{"id":1,"event":{"type":[]}}`), "gzip")
	f.Add("sha256=,=,"+strings.Repeat("0", 64), "Basic Og==", "{1:2}", "", []byte("{}"), "")
	f.Add(",,=,t=t=", "v0", "-0", "", []byte("\xff\xfe{\x00}\x00"), "")
	hooks := []webhook.Hook{
		hook(f, webhook.Spec{Form: webhook.GitLab}), hook(f, webhook.Spec{Form: webhook.Stripe}), hook(f, webhook.Spec{Form: webhook.Slack}),
		hook(f, webhook.Spec{Form: webhook.HMAC, Header: "X-Signature", IDHeader: "X-Id"}), hook(f, webhook.Spec{Form: webhook.Token}),
	}
	f.Fuzz(func(t *testing.T, stripe, slack, stamp, token string, body []byte, encoding string) {
		header := http.Header{
			"Stripe-Signature": {stripe}, "X-Slack-Signature": {slack}, "X-Slack-Request-Timestamp": {stamp},
			"X-Gitlab-Token": {token}, "Idempotency-Key": {stamp}, "Content-Encoding": {encoding},
			"X-Signature": {stripe}, "X-Id": {stamp}, "Authorization": {slack},
		}
		webhook.FieldsOf(body)
		for _, h := range hooks {
			if d, err := h.Verify(header, body, now); err == nil && token != secret {
				t.Errorf("%s: %+v was accepted without the secret", h.Form, d)
			}
			signed := h.Sign(webhook.Delivery{ID: "d1", Body: body}, now)
			if _, err := h.Verify(signed, body, now); fault.KindOf(err) == fault.Unauthenticated {
				t.Errorf("%s: a signed delivery: %v", h.Form, err)
			}
		}
	})
}
