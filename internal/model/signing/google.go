package signing

import (
	"context"
	"net/http"
	"sync"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"

	"lilac/internal/foundation/fault"
)

// googleScope is the scope that Vertex requires.
const googleScope = "https://www.googleapis.com/auth/cloud-platform"

// Google adds Google's access tokens to requests. The credentials are Google's default
// ones: the file that GOOGLE_APPLICATION_CREDENTIALS names, those of gcloud, or those of
// the machine.
type Google struct {
	Base http.RoundTripper
	// Find finds the credentials; nil means the default ones.
	Find func(context.Context) (oauth2.TokenSource, error)

	mu     sync.Mutex // guards tokens
	tokens oauth2.TokenSource
}

// RoundTrip implements [http.RoundTripper].
func (g *Google) RoundTrip(req *http.Request) (*http.Response, error) {
	source, err := g.source()
	if err != nil {
		return nil, fault.Wrap(fault.Unauthenticated, err, "There are no credentials for Google Cloud: set GOOGLE_APPLICATION_CREDENTIALS to a key file, or run gcloud auth application-default login.")
	}
	token, err := source.Token()
	if err != nil {
		return nil, fault.Wrap(fault.Unauthenticated, err, "Google Cloud gives no access token for the credentials.")
	}
	signed := req.Clone(req.Context())
	token.SetAuthHeader(signed)
	return g.Base.RoundTrip(signed)
}

// source finds the credentials once. A failure is not kept, because the operator may
// correct it.
func (g *Google) source() (oauth2.TokenSource, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.tokens != nil {
		return g.tokens, nil
	}
	find := g.Find
	if find == nil {
		find = func(ctx context.Context) (oauth2.TokenSource, error) {
			return google.DefaultTokenSource(ctx, googleScope)
		}
	}
	// The source refreshes tokens long after this request.
	tokens, err := find(context.Background())
	if err != nil {
		return nil, err
	}
	g.tokens = oauth2.ReuseTokenSource(nil, tokens)
	return g.tokens, nil
}
