package mcpclient

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
)

// Registration is the answer of an authorization server to Lilac's registration. A later login with the same request
// uses the answer again, because servers show people a list of all clients, and some limit their number.
type Registration struct {
	URL     string          `json:"url"`
	Request json.RawMessage `json:"request"`
	Answer  json.RawMessage `json:"answer"`
}

// registering repeats the answer of a registration that is known, and keeps that of another one.
type registering struct {
	http.RoundTripper
	known *Registration
}

// RoundTrip implements [http.RoundTripper]. Of the requests in a login, only a registration posts JSON.
func (t registering) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" {
		return t.RoundTripper.RoundTrip(r)
	}
	asked, err := io.ReadAll(r.Body)
	_ = r.Body.Close()
	if err != nil {
		return nil, err
	}
	if t.known.URL == r.URL.String() && bytes.Equal(t.known.Request, asked) {
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(t.known.Answer)), Request: r}, nil
	}
	r = r.Clone(r.Context())
	r.Body = io.NopCloser(bytes.NewReader(asked))
	answer, err := t.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	got, err := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	if answer.Body = io.NopCloser(bytes.NewReader(got)); err == nil && json.Valid(got) {
		*t.known = Registration{URL: r.URL.String(), Request: asked, Answer: got}
	}
	return answer, err
}
