package webhook_test

import (
	"net/http"
	"strings"
	"testing"

	"lilac/internal/core/webhook"
	"lilac/internal/foundation/fault"
)

const anySecret = "0123456789abcdef0123"

// The signatures were computed with openssl. The headers are those that the senders document.
func TestAnySenderThatSigns(t *testing.T) {
	const (
		body   = `{"type":"Issue","action":"create"}`
		digits = "f5ddec303e61e4d87857a294d7b4858b8bbfdd242dfcc21e9fe5eb389e87aa12"
		base64 = "9d3sMD5h5Nh4V6KU17SFi4u/3SQt/MIen+XrOJ6HqhI="
	)
	for name, c := range map[string]struct {
		spec          webhook.Spec
		header        map[string]string
		wantID, event string
	}{
		"Linear": {
			webhook.Spec{Header: "Linear-Signature", IDHeader: "Linear-Delivery"},
			map[string]string{"Linear-Signature": digits, "Linear-Delivery": "234d1a4e-b617-4388-90fe-adc3633d6b72", "Linear-Event": "Issue"},
			"234d1a4e-b617-4388-90fe-adc3633d6b72", "Issue",
		},
		"Shopify": {
			webhook.Spec{Header: "X-Shopify-Hmac-SHA256", IDHeader: "x-shopify-webhook-id", EventHeader: "x-shopify-topic"},
			map[string]string{"X-Shopify-Hmac-Sha256": base64, "X-Shopify-Webhook-Id": "b54557e4-bdd9-4b37-8a5f-bf7d70bcd043", "X-Shopify-Topic": "orders/create"},
			"b54557e4-bdd9-4b37-8a5f-bf7d70bcd043", "orders/create",
		},
		"Bitbucket": {
			webhook.Spec{Header: "X-Hub-Signature", IDHeader: "X-Request-UUID", EventHeader: "X-Event-Key"},
			map[string]string{"X-Hub-Signature": "sha256=" + digits, "X-Request-Uuid": "{1:2}", "X-Event-Key": "repo:push"},
			"f1d881702c53d1b618117fe64a13a6985cd49192f5ffe28081cb567d6a8eeaad", "repo:push", // its id has characters that an id may not have
		},
		"PagerDuty, while it changes its secret": {
			webhook.Spec{Header: "X-PagerDuty-Signature"},
			map[string]string{"X-Pagerduty-Signature": "v1=" + strings.Repeat("0", 64) + ",v1=" + digits},
			"", "Issue",
		},
		"Typeform": {
			webhook.Spec{Header: "Typeform-Signature"},
			map[string]string{"Typeform-Signature": "sha256=" + base64},
			"", "Issue",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.spec.Form, c.spec.Secret = webhook.HMAC, anySecret
			h, header := hook(t, c.spec), http.Header{}
			for key, v := range c.header {
				header.Set(key, v)
			}
			if err := h.CheckHeaders(header, now); err != nil {
				t.Errorf("refused by its headers: %v", err)
			}
			d, err := h.Verify(header, []byte(body), now)
			if err != nil || d.ID != c.wantID || d.Event != c.event {
				t.Errorf("%+v, %v", d, err)
			}
			if _, err := h.Verify(header, []byte(body+" "), now); fault.KindOf(err) != fault.Unauthenticated {
				t.Errorf("with another body: %v", err)
			}
		})
	}
}

func TestAnySenderWithAToken(t *testing.T) {
	for name, c := range map[string]struct {
		header, value string // of the spec, and of the delivery
		ok            bool
	}{
		"bearer":                     {"", "Bearer " + anySecret, true},
		"another case":               {"", "bearer  " + anySecret, true},
		"basic":                      {"", "Basic bGlsYWM6MDEyMzQ1Njc4OWFiY2RlZjAxMjM=", true},
		"basic without a user":       {"", "Basic OjAxMjM0NTY3ODlhYmNkZWYwMTIz", true},
		"a header of one's own":      {"X-Telegram-Bot-Api-Secret-Token", anySecret, true},
		"nothing":                    {"", "", false},
		"the token without a scheme": {"", anySecret, false},
		"a part of it":               {"", "Bearer " + anySecret[:19], false},
		"more than it":               {"", "Bearer " + anySecret + "4", false},
		"the token as the user":      {"", "Basic MDEyMzQ1Njc4OWFiY2RlZjAxMjM6", false},
		"broken base64":              {"", "Basic !", false},
		"a scheme, where none is":    {"X-Token", "Bearer " + anySecret, false},
	} {
		h := hook(t, webhook.Spec{Form: webhook.Token, Secret: anySecret, Header: c.header})
		header := http.Header{}
		header.Set(h.Header, c.value)
		d, err := h.Verify(header, []byte("text"), now)
		if early := h.CheckHeaders(header, now); (err == nil) != c.ok || (early == nil) != c.ok {
			t.Errorf("%s: %+v, %v, by its headers %v", name, d, err, early)
		}
		if !c.ok && fault.KindOf(err) != fault.Unauthenticated {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDeliveriesOfAnySenderHaveTheIDThatIsConfigured(t *testing.T) {
	h := hook(t, webhook.Spec{Form: webhook.Token, IDHeader: "X-Delivery"})
	header := h.Sign(webhook.Delivery{ID: "d1"}, now)
	if d, err := h.Verify(header, nil, now); err != nil || d.ID != "d1" {
		t.Errorf("%+v, %v", d, err)
	}
	header.Del("X-Delivery")
	if _, err := h.Verify(header, nil, now); err == nil || !strings.Contains(err.Error(), "header X-Delivery") {
		t.Errorf("without its id: %v", err)
	}
}

func TestHeadersThatCannotBeConfigured(t *testing.T) {
	for name, c := range map[string]struct {
		spec  webhook.Spec
		field string
	}{
		"no header of the signature":       {webhook.Spec{Form: webhook.HMAC}, "header"},
		"a fixed header":                   {webhook.Spec{Header: "X-Signature"}, "header"},
		"a fixed id":                       {webhook.Spec{Form: webhook.Slack, IDHeader: "X-Id"}, "idHeader"},
		"no name":                          {webhook.Spec{Form: webhook.HMAC, Header: "X Signature"}, "header"},
		"the token as the id":              {webhook.Spec{Form: webhook.Token, Header: "X-Token", IDHeader: "x-token"}, "idHeader"},
		"the token as the event":           {webhook.Spec{Form: webhook.Token, EventHeader: "authorization"}, "eventHeader"},
		"a secret of a proxy as the event": {webhook.Spec{Form: webhook.HMAC, Header: "X-Signature", EventHeader: "Cookie"}, "eventHeader"},
	} {
		c.spec.Name, c.spec.Secret = "ci", anySecret
		if _, err := webhook.New(c.spec); fault.ToWire(err).Field != c.field {
			t.Errorf("%s: %v", name, err)
		}
	}
}
