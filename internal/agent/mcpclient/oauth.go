package mcpclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"

	"lilac/internal/agent/egress"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/setting"
	"lilac/internal/foundation/text"
)

// OAuthConfig is the registration of Lilac with an authorization server.
type OAuthConfig struct {
	ClientID     string         `json:"clientId,omitempty" jsonschema:"The client ID of Lilac with the authorization server: one that you registered there, or the https address of a client ID metadata document. Default: lilac mcp login registers Lilac."`
	ClientSecret setting.Secret `json:"clientSecret,omitempty" jsonschema:"The client secret, if the registration has one. Prefer ${NAME}, which reads an environment variable."`
	Issuer       string         `json:"issuer,omitempty" jsonschema:"The authorization server that the registration is for, for example https://login.example.org. With a clientSecret, it is required, so that a server cannot send the secret elsewhere."`
	Scopes       []string       `json:"scopes,omitempty" jsonschema:"The scopes to ask for. Default: those that the server names."`
	CallbackPort int            `json:"callbackPort,omitempty" jsonschema:"The port of the redirect address http://127.0.0.1:PORT/callback during lilac mcp login. Register this address. Default 7424."`
}

// defaultCallbackPort is the port of the redirect address. Registrations contain it, so it
// does not change by itself.
const defaultCallbackPort = 7424

// RedirectURL is the redirect address of a login.
func (c OAuthConfig) RedirectURL() string {
	port := c.CallbackPort
	if port == 0 {
		port = defaultCallbackPort
	}
	return fmt.Sprintf("http://127.0.0.1:%d/callback", port)
}

// check returns the mistakes in the registration.
func (c OAuthConfig) check(field string) error {
	if c.ClientID == "" && (c.ClientSecret.Reveal() != "" || c.Issuer != "") {
		return fault.InvalidField(field+".clientId", "%s has a clientSecret or an issuer, and needs the clientId that it belongs to. Register Lilac with the authorization server, with the redirect address %s, or remove them: then the login registers Lilac.", field, c.RedirectURL())
	}
	if c.ClientSecret.Reveal() != "" && c.Issuer == "" {
		return fault.InvalidField(field+".issuer", "%s has a clientSecret and needs the issuer that it is for, so that a server cannot send the secret elsewhere.", field)
	}
	if c.CallbackPort < 0 || c.CallbackPort > 65535 {
		return fault.InvalidField(field+".callbackPort", "%s.callbackPort is not a port.", field)
	}
	return nil
}

// Login is the permission that a person gave Lilac with a server. Its tokens are for one
// address only.
type Login struct {
	// Endpoint is the address of the server, and Resource the name for which the
	// authorization server issued the tokens.
	Endpoint string `json:"endpoint"`
	Resource string `json:"resource"`
	// TokenURL is the address that refreshes tokens, and ClientID the client they belong to.
	TokenURL string `json:"tokenUrl"`
	ClientID string `json:"clientId"`
	// ClientSecret is the secret of a client that the login registered, if it has one.
	ClientSecret string `json:"clientSecret,omitempty"`
	// InHeader sends the client secret in a header.
	InHeader     bool      `json:"inHeader,omitempty"`
	AccessToken  string    `json:"accessToken"`
	RefreshToken string    `json:"refreshToken,omitempty"`
	Expiry       time.Time `json:"expiry,omitzero"`
	// Registration is the one that the login made or used; it has no URL if there was none.
	Registration Registration `json:"registration,omitzero"`
}

// Logins keeps logins; see [Vault].
type Logins interface {
	Load(server string) (Login, bool, error)
	Save(server string, l Login) error
}

// refreshBefore is the time before its end at which a token is refreshed.
const refreshBefore = time.Minute

// loginHandler implements [auth.OAuthHandler] with a stored login. It never begins a login
// itself: that needs a person.
type loginHandler struct {
	name   string
	config ServerConfig
	logins Logins
	// client reaches the token endpoint; tests replace it.
	client func(endpoint *url.URL) *http.Client

	mu sync.Mutex
	// renewed is the time at which a new token replaced one that the server had refused. If the server
	// refuses the new one within a minute, too, a person has to log in.
	renewed time.Time
}

var _ auth.OAuthHandler = (*loginHandler)(nil)

// needed is the error of a server that a person has to log in to.
func (h *loginHandler) needed(why string) error {
	return fault.New(fault.Unauthenticated, "it needs a login%s: lilac mcp login %s", why, h.name)
}

// TokenSource implements [auth.OAuthHandler].
func (h *loginHandler) TokenSource(ctx context.Context) (oauth2.TokenSource, error) {
	if h.config.OAuth == nil { // the server may need no login
		if login, ok, err := h.logins.Load(h.name); err != nil || !ok || login.Endpoint != h.config.URL {
			return nil, err
		}
	}
	return tokenSource{ctx, h}, nil
}

// Authorize implements [auth.OAuthHandler]: the server refused the token. A nil error repeats the
// call.
func (h *loginHandler) Authorize(ctx context.Context, request *http.Request, r *http.Response) error {
	_ = r.Body.Close()
	if r.StatusCode == http.StatusForbidden {
		return h.forbidden(r)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	login, ok, err := h.logins.Load(h.name)
	if err != nil {
		return err
	}
	used := strings.TrimPrefix(request.Header.Get("Authorization"), "Bearer ")
	switch {
	case h.config.OAuth == nil && (!ok || login.Endpoint != h.config.URL):
		return fault.New(fault.Unauthenticated, "it refuses Lilac (%d): run lilac mcp login %s or, if the server needs a token of yours, set it in mcpServers.%s.headers", r.StatusCode, h.name, h.name)
	case ok && login.AccessToken != used:
		return nil // another call has renewed it
	case !ok || login.RefreshToken == "" || time.Since(h.renewed) < refreshBefore:
		return h.needed(" (it refused the token)")
	}
	// Servers revoke tokens early, and some never say how long one is valid.
	if login, err = h.refresh(ctx, login); err != nil {
		return err
	}
	h.renewed = time.Now()
	return h.logins.Save(h.name, login)
}

// forbidden is the error of a server that accepts the token, but not for this call. A login with
// the same scopes would not help.
func (h *loginHandler) forbidden(r *http.Response) error {
	challenges, _ := oauthex.ParseWWWAuthenticate(r.Header.Values("WWW-Authenticate")) // a malformed header names no scopes
	for _, c := range challenges {
		if c.Params["error"] == "insufficient_scope" && c.Params["scope"] != "" {
			return fault.New(fault.Denied, "it needs a login with the scopes %q: add them to mcpServers.%s.oauth.scopes, then run: lilac mcp login %s", text.TruncateRunes(text.SingleLine(c.Params["scope"]), 300), h.name, h.name)
		}
	}
	return fault.New(fault.Denied, "it does not allow this call with this login (403)")
}

// refusals implements [auth.OAuthHandler] for a server with a token in its headers, to say what it needs.
type refusals struct{ name string }

// TokenSource implements [auth.OAuthHandler].
func (refusals) TokenSource(context.Context) (oauth2.TokenSource, error) { return nil, nil }

// Authorize implements [auth.OAuthHandler].
func (h refusals) Authorize(_ context.Context, _ *http.Request, r *http.Response) error {
	_ = r.Body.Close()
	return fault.New(fault.Unauthenticated, "it refuses Lilac (%d): check the token in mcpServers.%s.headers", r.StatusCode, h.name)
}

type tokenSource struct {
	ctx context.Context
	h   *loginHandler
}

// Token implements [oauth2.TokenSource].
func (s tokenSource) Token() (*oauth2.Token, error) {
	h := s.h
	h.mu.Lock()
	defer h.mu.Unlock()
	login, ok, err := h.logins.Load(h.name)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, h.needed("")
	case login.Endpoint != h.config.URL:
		// Tokens for one address must not reach another one.
		return nil, h.needed(" (its address has changed)")
	}
	if !login.Expiry.IsZero() && time.Until(login.Expiry) < refreshBefore {
		if login, err = h.refresh(s.ctx, login); err != nil {
			return nil, err
		}
		if err := h.logins.Save(h.name, login); err != nil {
			return nil, err
		}
	}
	return &oauth2.Token{AccessToken: login.AccessToken, TokenType: "Bearer", Expiry: login.Expiry}, nil
}

// maxTokenAnswer bounds the answer of a token endpoint, in bytes.
const maxTokenAnswer = 1 << 20

// refresh gets a new access token for the same resource.
func (h *loginHandler) refresh(ctx context.Context, l Login) (Login, error) {
	if l.RefreshToken == "" {
		return l, h.needed(" (the token has expired)")
	}
	endpoint, err := url.Parse(l.TokenURL)
	if err != nil {
		return l, h.needed(" (the stored login is damaged)")
	}
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {l.RefreshToken}, "client_id": {l.ClientID}, "resource": {l.Resource}}
	secret := l.ClientSecret
	if h.config.OAuth != nil && h.config.OAuth.ClientID == l.ClientID {
		secret = h.config.OAuth.ClientSecret.Reveal()
	}
	if secret != "" && !l.InHeader {
		form.Set("client_secret", secret)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint.String(), strings.NewReader(form.Encode()))
	if err != nil {
		return l, fmt.Errorf("refresh a token: %w", err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept", "application/json")
	if secret != "" && l.InHeader {
		r.SetBasicAuth(url.QueryEscape(l.ClientID), url.QueryEscape(secret))
	}
	client := h.client(endpoint)
	defer client.CloseIdleConnections()
	answer, err := client.Do(r)
	if err != nil {
		return l, fault.Wrap(fault.Unavailable, err, "the authorization server %s cannot be reached", endpoint.Host)
	}
	defer func() { _ = answer.Body.Close() }()
	var got struct {
		AccessToken  string `json:"access_token"`
		RefreshToken string `json:"refresh_token"`
		ExpiresIn    int64  `json:"expires_in"`
		Error        string `json:"error"`
	}
	err = json.NewDecoder(io.LimitReader(answer.Body, maxTokenAnswer)).Decode(&got)
	switch {
	case got.Error == "invalid_grant":
		return l, h.needed(" (the login has ended)")
	case got.Error == "invalid_client" && (h.config.OAuth == nil || h.config.OAuth.ClientID != l.ClientID):
		return l, h.needed(" (the registration has ended)")
	case err != nil || answer.StatusCode != http.StatusOK || got.AccessToken == "":
		return l, fault.New(fault.Unavailable, "the authorization server %s does not refresh the token (%d %s)", endpoint.Host, answer.StatusCode, text.TruncateRunes(text.SingleLine(got.Error), 100))
	}
	l.AccessToken, l.Expiry = got.AccessToken, time.Time{}
	if got.ExpiresIn > 0 {
		l.Expiry = time.Now().Add(time.Duration(got.ExpiresIn) * time.Second)
	}
	if got.RefreshToken != "" {
		l.RefreshToken = got.RefreshToken
	}
	return l, nil
}

// discovery is a client for the addresses that a server names for its login. Each request
// may reach its own host only, and hosts in a private network only if the operator named
// such a host as the server.
type discovery struct {
	server   *url.URL
	internal bool
}

func (d discovery) client() *http.Client {
	return &http.Client{Transport: d, Timeout: 30 * time.Second}
}

// RoundTrip implements [http.RoundTripper].
func (d discovery) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := d.check(r.URL); err != nil {
		return nil, err
	}
	client := egress.NewService(egress.ServiceOptions{Origin: r.URL, Internal: d.internal, BodyBytes: maxTokenAnswer})
	answer, err := client.Transport.RoundTrip(r)
	if err != nil {
		client.CloseIdleConnections()
		return nil, err
	}
	answer.Body = closing{answer.Body, client}
	return answer, nil
}

// check refuses addresses that a server must not make Lilac reach.
func (d discovery) check(u *url.URL) error {
	if u.Host == d.server.Host && u.Scheme == d.server.Scheme || d.internal || isLocal(d.server.Hostname()) {
		return nil
	}
	if u.Scheme != "https" || isLocal(u.Hostname()) {
		return fault.New(fault.Denied, "The server names %s for the login, which is not an address on the public internet with https.", u.Host)
	}
	return nil
}

// isLocal reports whether a host is an address, or this machine.
func isLocal(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil || strings.EqualFold(host, "localhost") || strings.HasSuffix(strings.ToLower(host), ".localhost")
}

type closing struct {
	io.ReadCloser
	client *http.Client
}

func (c closing) Close() error {
	err := c.ReadCloser.Close()
	c.client.CloseIdleConnections()
	return err
}

// LoginOptions configure [LogIn].
type LoginOptions struct {
	// Show shows the address that a person opens in a browser.
	Show func(address string)
	// Registration is that of an earlier login with the server, to use it again.
	Registration Registration
}

// LogIn lets a person permit Lilac the use of a server, and returns the login. It listens on
// the redirect address until the person has decided, or ctx ends.
func LogIn(ctx context.Context, c ServerConfig, o LoginOptions) (Login, error) {
	endpoint, err := c.endpoint()
	if err != nil || c.transport() != transportHTTP {
		return Login{}, fault.New(fault.Invalid, "A login needs a server with a url.")
	}
	if c.OAuth == nil {
		c.OAuth = &OAuthConfig{}
	}
	var out Login
	d := discovery{endpoint, c.Internal}
	client := d.client()
	client.Transport = registering{client.Transport, &o.Registration}
	handler, err := auth.NewAuthorizationCodeHandler(handlerConfig(c, endpoint, client, o, &out))
	if err != nil {
		return Login{}, fault.Wrap(fault.Invalid, err, "The registration cannot be used: %s.", err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint.String(), strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
	if err != nil {
		return Login{}, fmt.Errorf("ask the server: %w", err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	answer, err := d.client().Do(r)
	if err != nil {
		return Login{}, fault.Wrap(fault.Unavailable, err, "The server %s cannot be reached: %s.", endpoint.Host, reason(err))
	}
	if answer.StatusCode != http.StatusUnauthorized {
		_ = answer.Body.Close()
		return Login{}, fault.New(fault.Conflict, "The server %s does not ask for a login (it answers %d).", endpoint.Host, answer.StatusCode)
	}
	if err := handler.Authorize(ctx, r, answer); err != nil {
		var known *fault.Error
		if errors.As(err, &known) {
			return Login{}, known
		}
		return Login{}, fault.Wrap(fault.Unauthenticated, err, "The login failed: %s.", text.TruncateRunes(text.SingleLine(err.Error()), 300))
	}
	if out.AccessToken == "" {
		return Login{}, fault.New(fault.Unauthenticated, "The authorization server gave no token.")
	}
	out.Registration = o.Registration
	return out, nil
}

// handlerConfig describes a login to the SDK. out receives it.
func handlerConfig(c ServerConfig, endpoint *url.URL, client *http.Client, o LoginOptions, out *Login) *auth.AuthorizationCodeHandlerConfig {
	resource := ""
	cfg := &auth.AuthorizationCodeHandlerConfig{
		RedirectURL: c.OAuth.RedirectURL(), Client: client, RequestRefreshToken: true, AcceptUnadvertisedIss: true,
		AuthorizationCodeFetcher: func(ctx context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
			var err error
			if resource, err = ownResource(args.URL, endpoint); err != nil {
				return nil, err
			}
			return awaitCode(ctx, c.OAuth.RedirectURL(), func() { o.Show(args.URL) })
		},
		NewTokenSource: func(_ context.Context, used *oauth2.Config, t *oauth2.Token) (oauth2.TokenSource, error) {
			*out = Login{
				Endpoint: c.URL, Resource: resource, TokenURL: used.Endpoint.TokenURL, ClientID: used.ClientID, InHeader: used.Endpoint.AuthStyle != oauth2.AuthStyleInParams,
				AccessToken: t.AccessToken, RefreshToken: t.RefreshToken, Expiry: t.Expiry,
			}
			if used.ClientID != c.OAuth.ClientID {
				out.ClientSecret = used.ClientSecret
			}
			return oauth2.StaticTokenSource(t), nil
		},
	}
	if len(c.OAuth.Scopes) > 0 {
		cfg.ScopeFilter = func([]string) []string { return c.OAuth.Scopes }
	}
	register(cfg, c.OAuth)
	return cfg
}

// ownResource returns the resource of an authorization request. It must be the server
// itself: a server must not get tokens for another one.
func ownResource(authorization string, endpoint *url.URL) (string, error) {
	u, err := url.Parse(authorization)
	if err != nil {
		return "", fault.Wrap(fault.Invalid, err, "The address for the login cannot be read.")
	}
	resource := u.Query().Get("resource")
	got, err := url.Parse(resource)
	if err != nil || got.Scheme != endpoint.Scheme || !strings.EqualFold(got.Host, endpoint.Host) || !strings.HasPrefix(endpoint.Path+"/", strings.TrimSuffix(got.Path, "/")+"/") {
		return "", fault.New(fault.Denied, "The server asks for a token for %q, which is not the server itself (%s). The login is refused.", resource, endpoint)
	}
	return resource, nil
}

// awaitCode listens on the redirect address until the browser comes back.
func awaitCode(ctx context.Context, redirect string, show func()) (*auth.AuthorizationResult, error) {
	u, err := url.Parse(redirect)
	if err != nil {
		return nil, fmt.Errorf("read the redirect address: %w", err)
	}
	listener, err := net.Listen("tcp", u.Host)
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "Nobody can listen on %s. Is another login running? Otherwise, choose another port with oauth.callbackPort, and register its address.", u.Host)
	}
	type outcome struct {
		result *auth.AuthorizationResult
		err    error
	}
	came := make(chan outcome, 1)
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if r.URL.Path != u.Path || q.Get("code") == "" && q.Get("error") == "" {
			http.NotFound(w, r)
			return
		}
		got, message := outcome{result: &auth.AuthorizationResult{Code: q.Get("code"), State: q.Get("state"), Iss: q.Get("iss")}}, "You can close this page and return to the terminal."
		if refused := q.Get("error"); refused != "" {
			message = "The login was refused. You can close this page."
			got = outcome{err: fault.New(fault.Denied, "The authorization server refused the login: %s", text.TruncateRunes(text.SingleLine(refused+" "+q.Get("error_description")), 300))}
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, message) // the browser may be gone
		select {
		case came <- got:
		default:
		}
	})}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = server.Serve(listener) }() // it ends with Shutdown
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), endTime)
		defer cancel()
		_ = server.Shutdown(ctx) // waits for the page to be sent
		_ = server.Close()
		<-ended
	}()
	show()
	select {
	case got := <-came:
		return got.result, got.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// register chooses the registration: a client that the operator registered, a client ID
// metadata document, or else a new public client. The protocol has deprecated the last one
// (revision 2026-07-28), but many servers offer nothing else.
func register(cfg *auth.AuthorizationCodeHandlerConfig, c *OAuthConfig) {
	document := strings.HasPrefix(c.ClientID, "https://")
	if document {
		cfg.ClientIDMetadataDocumentConfig = &auth.ClientIDMetadataDocumentConfig{URL: c.ClientID}
	}
	if document || c.ClientID == "" {
		cfg.DynamicClientRegistrationConfig = &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{
			ClientName: "Lilac", RedirectURIs: []string{c.RedirectURL()}, TokenEndpointAuthMethod: "none",
			GrantTypes: []string{"authorization_code", "refresh_token"}, ResponseTypes: []string{"code"}, Scope: strings.Join(c.Scopes, " "),
		}}
		return
	}
	cfg.PreregisteredClient = &oauthex.ClientCredentials{ClientID: c.ClientID, Issuer: c.Issuer}
	if secret := c.ClientSecret.Reveal(); secret != "" {
		cfg.PreregisteredClient.ClientSecretAuth = &oauthex.ClientSecretAuth{ClientSecret: secret}
	}
}
