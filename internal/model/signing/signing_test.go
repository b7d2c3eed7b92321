package signing_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"lilac/internal/foundation/fault"
	"lilac/internal/model/signing"
)

// capture records the request that reaches the network.
type capture struct {
	req  *http.Request
	body string
}

func (c *capture) RoundTrip(r *http.Request) (*http.Response, error) {
	c.req = r
	body, err := io.ReadAll(r.Body)
	c.body = string(body)
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, err
}

func request(t *testing.T, address string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(`{"a":1}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer left over")
	return r
}

func at() time.Time { return time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC) }

func TestRequestsToBedrockAreSigned(t *testing.T) {
	signatures := map[string]bool{}
	for address, scope := range map[string]string{
		"https://bedrock-runtime.eu-central-1.amazonaws.com/openai/v1/chat/completions": "20261125/eu-central-1/bedrock/aws4_request",
		"https://bedrock-mantle.us-east-1.api.aws/anthropic/v1/messages":                "20261125/us-east-1/bedrock-mantle/aws4_request",
	} {
		net := &capture{}
		a := &signing.AWS{Base: net, Now: at, Credentials: func() signing.AWSCredentials {
			return signing.AWSCredentials{AccessKeyID: "AKID", SecretAccessKey: "secret", SessionToken: "session"}
		}}
		r := request(t, address)
		r.Header["Idempotency-Key"] = []string{} // for the transport, which does not send it
		if _, err := a.RoundTrip(r); err != nil {
			t.Fatal(err)
		}
		auth := net.req.Header.Get("Authorization")
		if !strings.HasPrefix(auth, "AWS4-HMAC-SHA256 Credential=AKID/"+scope+",") || net.req.Header.Get("X-Amz-Security-Token") != "session" || net.req.Header.Get("X-Amz-Date") != "20261125T120000Z" {
			t.Errorf("%s: signed with %q", address, auth)
		}
		if _, kept := net.req.Header["Idempotency-Key"]; !kept || strings.Contains(auth, "idempotency-key") || !strings.Contains(auth, "content-type") {
			t.Errorf("%s: a header that is not sent is kept: %t; signed with %q", address, kept, auth)
		}
		if net.body != `{"a":1}` || r.Header.Get("Authorization") != "Bearer left over" {
			t.Errorf("the body is %q, and the caller's header %q", net.body, r.Header.Get("Authorization"))
		}
		signatures[auth] = true
	}
	// The signature covers the body.
	net := &capture{}
	a := &signing.AWS{Base: net, Now: at, Credentials: func() signing.AWSCredentials {
		return signing.AWSCredentials{AccessKeyID: "AKID", SecretAccessKey: "secret", SessionToken: "session"}
	}}
	r := request(t, "https://bedrock-mantle.us-east-1.api.aws/anthropic/v1/messages")
	r.Body = io.NopCloser(strings.NewReader(`{"a":2}`))
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(`{"a":2}`)), nil }
	if _, err := a.RoundTrip(r); err != nil || signatures[net.req.Header.Get("Authorization")] {
		t.Errorf("another body has the same signature (%v)", err)
	}
}

func TestWhatCannotBeSignedIsNotSent(t *testing.T) {
	for name, tt := range map[string]struct {
		address string
		c       signing.AWSCredentials
		kind    fault.Kind
		want    string
	}{
		"no credentials": {"https://bedrock-runtime.us-east-1.amazonaws.com/x", signing.AWSCredentials{}, fault.Unauthenticated, "AWS_ACCESS_KEY_ID"},
		"another host":   {"https://example.org/v1", signing.AWSCredentials{AccessKeyID: "a", SecretAccessKey: "b"}, fault.Invalid, "bedrock-runtime.REGION"},
	} {
		net := &capture{}
		a := &signing.AWS{Base: net, Now: at, Credentials: func() signing.AWSCredentials { return tt.c }}
		_, err := a.RoundTrip(request(t, tt.address))
		if fault.KindOf(err) != tt.kind || !strings.Contains(err.Error(), tt.want) || net.req != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestGooglesTokensAreAddedAndKept(t *testing.T) {
	finds := 0
	net := &capture{}
	g := &signing.Google{Base: net, Find: func(context.Context) (oauth2.TokenSource, error) {
		finds++
		if finds == 1 {
			return nil, errors.New("no credentials")
		}
		return oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "ya29.token", Expiry: time.Now().Add(time.Hour)}), nil
	}}
	const address = "https://europe-west4-aiplatform.googleapis.com/v1/projects/p/locations/europe-west4/endpoints/openai/chat/completions"
	if _, err := g.RoundTrip(request(t, address)); fault.KindOf(err) != fault.Unauthenticated || !strings.Contains(err.Error(), "gcloud auth") || net.req != nil {
		t.Errorf("without credentials: %v", err)
	}
	for range 2 {
		if _, err := g.RoundTrip(request(t, address)); err != nil || net.req.Header.Get("Authorization") != "Bearer ya29.token" {
			t.Errorf("%v, %v", err, net.req.Header)
		}
	}
	if finds != 2 {
		t.Errorf("the credentials were searched %d times, want 2", finds)
	}
}
