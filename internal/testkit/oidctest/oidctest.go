// Package oidctest is an OpenID Connect provider for tests. It speaks the protocol of real ones:
// discovery, a page that authorizes, a token endpoint that checks the client, PKCE, and that each
// code is used once, and signed ID tokens with published keys. A test can make it lie.
package oidctest

import (
	"crypto"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// The client that the provider knows.
const (
	ClientID     = "lilac"
	ClientSecret = "client-secret-of-lilac"
)

// Provider is the provider. The fields may be changed between logins.
type Provider struct {
	URL string

	mu sync.Mutex
	// claims are those of the person who signs in, besides the standard ones, and info those that only
	// the user info has.
	claims, info map[string]any
	// forge changes the claims of an ID token before it is signed, and may return another algorithm:
	// "none", "HS256", or "foreign", which signs with a key that is not published.
	forge func(claims map[string]any) (alg string)
	// reuse lets a code be used again, as a broken provider would.
	reuse, down bool
	codes       map[string]grant
	tokens      map[string]map[string]any // the user info, by access token
	slash       string
	alg         string
	key, other  *rsa.PrivateKey
}

// grant is a code that was issued.
type grant struct{ nonce, challenge, redirect, scope string }

// New starts a provider.
func New(t testing.TB) *Provider {
	t.Helper()
	p := &Provider{codes: map[string]grant{}, tokens: map[string]map[string]any{}, claims: map[string]any{"sub": "1"}, alg: "RS256"}
	for _, k := range []**rsa.PrivateKey{&p.key, &p.other} {
		var err error
		if *k, err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
			t.Fatal(err)
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", p.discovery)
	mux.HandleFunc("GET /keys", p.keys)
	mux.HandleFunc("GET /authorize", p.authorize)
	mux.HandleFunc("POST /token", p.token)
	mux.HandleFunc("GET /userinfo", p.userInfo)
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	p.URL = srv.URL
	return p
}

// Person sets the claims of the person who signs in.
func (p *Provider) Person(claims map[string]any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.claims = claims
}

// UserInfo sets the claims that only the user info has, as with node-oidc-provider and Authelia.
// The claim groups is there only for the scope groups, as with Dex.
func (p *Provider) UserInfo(claims map[string]any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.info = claims
}

// EndWithSlash ends the issuer with a slash, as Auth0's does.
func (p *Provider) EndWithSlash() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.slash = "/"
}

// Forge makes the provider lie in the next ID tokens; nil ends that.
func (p *Provider) Forge(forge func(claims map[string]any) (alg string)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forge = forge
}

// Sign makes the provider sign with RS256 or RS512, and say so.
func (p *Provider) Sign(alg string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.alg = alg
}

// LogoutToken returns a token of the back-channel logout for a person, with other claims changed.
func (p *Provider) LogoutToken(change map[string]any) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	claims := map[string]any{
		"iss": p.URL + p.slash, "aud": ClientID, "iat": now.Unix(), "exp": now.Add(time.Minute).Unix(), "jti": rand.Text(), "sub": p.claims["sub"],
		"events": map[string]any{"http://schemas.openid.net/event/backchannel-logout": map[string]any{}},
	}
	for k, v := range change {
		if claims[k] = v; v == nil {
			delete(claims, k)
		}
	}
	return p.sign(p.alg, claims)
}

// Reuse lets codes be used again.
func (p *Provider) Reuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reuse = true
}

// Down makes the provider fail every call.
func (p *Provider) Down(down bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = down
}

func (p *Provider) discovery(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down {
		http.Error(w, "down", http.StatusBadGateway)
		return
	}
	answer(w, map[string]any{
		"issuer": p.URL + p.slash, "end_session_endpoint": p.URL + "/exit?realm=x", "userinfo_endpoint": p.URL + "/userinfo", "scopes_supported": []string{"openid", "email", "profile", "groups"}, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys",
		"response_types_supported": []string{"code"}, "subject_types_supported": []string{"public"},
		"id_token_signing_alg_values_supported": []string{p.alg, "HS256", "none"}, "code_challenge_methods_supported": []string{"S256"},
	})
}

func (p *Provider) keys(w http.ResponseWriter, _ *http.Request) {
	answer(w, map[string]any{"keys": []any{map[string]any{
		"kty": "RSA", "use": "sig", "kid": "k1", "n": encode(p.key.N.Bytes()), "e": encode(big.NewInt(int64(p.key.E)).Bytes()),
	}}})
}

// authorize is the page on which a person agrees; here, everybody does.
func (p *Provider) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("client_id") != ClientID || q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" || q.Get("nonce") == "" || q.Get("state") == "" {
		http.Error(w, "invalid_request", http.StatusBadRequest)
		return
	}
	code := rand.Text()
	p.mu.Lock()
	p.codes[code] = grant{q.Get("nonce"), q.Get("code_challenge"), q.Get("redirect_uri"), q.Get("scope")}
	p.mu.Unlock()
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+url.Values{"code": {code}, "state": {q.Get("state")}}.Encode(), http.StatusFound)
}

func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	id, secret, basic := r.BasicAuth()
	if !basic {
		id, secret = r.PostFormValue("client_id"), r.PostFormValue("client_secret")
	}
	code := r.PostFormValue("code")
	g, known := p.codes[code]
	sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	if id != ClientID || secret != ClientSecret {
		refuse(w, http.StatusUnauthorized, "invalid_client")
		return
	}
	if !known || encode(sum[:]) != g.challenge || r.PostFormValue("redirect_uri") != g.redirect {
		refuse(w, http.StatusBadRequest, "invalid_grant")
		return
	}
	if !p.reuse {
		delete(p.codes, code)
	}
	now := time.Now()
	claims := map[string]any{"iss": p.URL + p.slash, "aud": ClientID, "iat": now.Unix(), "exp": now.Add(time.Minute).Unix(), "nonce": g.nonce}
	for k, v := range p.claims {
		claims[k] = v
	}
	alg := p.alg
	if p.forge != nil {
		if other := p.forge(claims); other != "" {
			alg = other
		}
	}
	access, info := rand.Text(), map[string]any{"sub": claims["sub"]}
	for k, v := range p.info {
		if k != "groups" || slices.Contains(strings.Fields(g.scope), "groups") {
			info[k] = v
		}
	}
	p.tokens[access] = info
	answer(w, map[string]any{"access_token": access, "token_type": "Bearer", "id_token": p.sign(alg, claims)})
}

func (p *Provider) userInfo(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	info, known := p.tokens[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
	if !known {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	answer(w, info)
}

// sign returns an ID token.
func (p *Provider) sign(alg string, claims map[string]any) string {
	key, head := p.key, alg
	if alg == "foreign" {
		key, head = p.other, p.alg
	}
	body := object(map[string]any{"alg": head, "typ": "JWT", "kid": "k1"}) + "." + object(claims)
	sum := sha256.Sum256([]byte(body))
	switch head {
	case "none":
		return body + "."
	case "HS256": // signed with what everybody knows: the public key
		mac := hmac.New(sha256.New, p.key.N.Bytes())
		mac.Write([]byte(body))
		return body + "." + encode(mac.Sum(nil))
	}
	method, digest := crypto.SHA256, sum[:]
	if head == "RS512" {
		long := sha512.Sum512([]byte(body))
		method, digest = crypto.SHA512, long[:]
	}
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, method, digest)
	if err != nil {
		return body
	}
	return body + "." + encode(signature)
}

func object(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return encode(raw)
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": code})
}
