package oidclogin

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"lilac/internal/core/account"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/text"
)

const (
	// flowAge is the time that a login may take.
	flowAge = 10 * time.Minute
	// maxFlows bounds the logins that have begun; a further one ends the oldest. Each takes less
	// than 500 bytes.
	maxFlows = 10_000
	// callTimeout limits a call of the provider, and maxAnswer its size in bytes.
	callTimeout = 15 * time.Second
	maxAnswer   = 1 << 20
	// maxClaim bounds a claim that is stored, in bytes.
	maxClaim = 255
)

// Options configure a provider.
type Options struct {
	// Name is the name that people see; "" means the host of the issuer.
	Name, Issuer, ClientID, ClientSecret string
	// Emails, Domains, and Groups list who may sign in.
	Emails, Domains, Groups []string
	// Operators are groups whose people may sign in as operators. If there are any, each login sets the role.
	Operators []string
	// GroupsClaim is the claim that names groups; "" means groups.
	GroupsClaim string
	// Role is that of a person who signs in for the first time.
	Role account.Role
	// Stay is the lifetime of a login.
	Stay time.Duration
	Now  func() time.Time
}

// Provider signs in people.
type Provider struct {
	o      Options
	client *http.Client

	mu sync.Mutex
	// discovered describes the provider, by its own document; nil before the first login.
	discovered *oidc.Provider
	flows      map[string]flow // by state
	order      []string        // of flows, the oldest first
}

// flow is a login that has begun in a browser.
type flow struct {
	browser, nonce, verifier, redirect string
	expires                            time.Time
}

// New returns a provider. It makes no calls.
func New(o Options) *Provider {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Role, o.GroupsClaim = cmp.Or(o.Role, account.Member), cmp.Or(o.GroupsClaim, "groups")
	return &Provider{o: o, client: &http.Client{Timeout: callTimeout, Transport: limited{http.DefaultTransport}}, flows: map[string]flow{}}
}

// limited bounds the answers of the provider.
type limited struct{ http.RoundTripper }

func (l limited) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := l.RoundTripper.RoundTrip(r)
	if err == nil {
		res.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(res.Body, maxAnswer), res.Body}
	}
	return res, err
}

// Name returns the name that people see.
func (p *Provider) Name() string {
	if p.o.Name != "" {
		return p.o.Name
	}
	if u, err := url.Parse(p.o.Issuer); err == nil && u.Host != "" {
		return u.Host
	}
	return p.o.Issuer
}

// Start begins a login. The browser goes to the address, and keeps the id that it gets. It sends
// the id that it has, so that logins in two of its tabs don't end each other.
func (p *Provider) Start(ctx context.Context, browser, redirect string) (address, id string, err error) {
	about, err := p.discover(ctx)
	if err != nil {
		return "", "", err
	}
	if len(browser) != len(rand.Text()) {
		browser = rand.Text()
	}
	state := rand.Text()
	f := flow{browser: browser, nonce: rand.Text(), verifier: oauth2.GenerateVerifier(), redirect: redirect, expires: p.o.Now().Add(flowAge)}
	p.keep(state, f)
	return p.config(about, redirect).AuthCodeURL(state, oidc.Nonce(f.nonce), oauth2.S256ChallengeOption(f.verifier)), browser, nil
}

// Check reports why the provider cannot be used, or nil.
func (p *Provider) Check(ctx context.Context) error {
	_, err := p.discover(ctx)
	return err
}

func (p *Provider) config(about *oidc.Provider, redirect string) *oauth2.Config {
	scopes := []string{oidc.ScopeOpenID, "email", "profile"}
	var offer struct {
		Scopes []string `json:"scopes_supported"`
	}
	// Dex and Okta send groups for this scope only, and Google refuses scopes that it does not know.
	if p.asksGroups() && p.o.GroupsClaim == "groups" && about.Claims(&offer) == nil && slices.Contains(offer.Scopes, "groups") {
		scopes = append(scopes, "groups")
	}
	return &oauth2.Config{ClientID: p.o.ClientID, ClientSecret: p.o.ClientSecret, Endpoint: about.Endpoint(), RedirectURL: redirect, Scopes: scopes}
}

// discover reads what the provider says of itself, once.
func (p *Provider) discover(ctx context.Context) (*oidc.Provider, error) {
	p.mu.Lock()
	about := p.discovered
	p.mu.Unlock()
	if about != nil {
		return about, nil
	}
	// The provider keeps the context for later calls, so it must not end.
	ctx = oidc.ClientContext(context.WithoutCancel(ctx), p.client)
	about, err := oidc.NewProvider(ctx, p.o.Issuer)
	// Auth0 and authentik end their issuer with a slash, which people leave out.
	if other := (*oidc.IssuerMismatchError)(nil); errors.As(err, &other) && strings.TrimSuffix(other.Discovered, "/") == strings.TrimSuffix(p.o.Issuer, "/") {
		about, err = oidc.NewProvider(ctx, other.Discovered)
	}
	switch other := (*oidc.IssuerMismatchError)(nil); {
	case errors.As(err, &other):
		return nil, fault.Wrap(fault.Unavailable, err, "The login provider calls itself %s. Ask an operator to set accounts.oidc.issuer to that.", other.Discovered)
	case err != nil:
		return nil, p.unreachable(err)
	}
	p.remember(about)
	return about, nil
}

// remember stores what the provider says of itself. After a failure, it is nil, because a provider
// that was set up anew may say something else.
func (p *Provider) remember(about *oidc.Provider) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.discovered = about
}

func (p *Provider) unreachable(err error) error {
	return fault.Wrap(fault.Unavailable, err, "The login provider %s does not answer as it should. Try again later, or ask an operator to check accounts.oidc.issuer.", p.Name())
}

// keep stores a flow.
func (p *Provider) keep(state string, f flow) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.order) > 0 && (len(p.flows) >= maxFlows || !p.o.Now().Before(p.flows[p.order[0]].expires)) {
		delete(p.flows, p.order[0])
		p.order = p.order[1:]
	}
	p.flows[state] = f
	p.order = append(p.order, state)
}

// take returns the flow of a browser, which cannot be used again.
func (p *Provider) take(state, browser string) (flow, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.flows[state]
	if f.browser == "" || subtle.ConstantTimeCompare([]byte(browser), []byte(f.browser)) != 1 {
		return f, false
	}
	p.flows[state] = flow{} // it stays in the order until it expires
	return f, p.o.Now().Before(f.expires)
}

// refused is a login that does not count.
func refused(format string, args ...any) *fault.Error {
	f := fault.New(fault.Denied, format, args...)
	f.Code = "oidc_refused"
	return f
}

// Finish checks what the browser with the id brought back, and returns the person.
func (p *Provider) Finish(ctx context.Context, browser string, query url.Values) (who account.Subject, err error) {
	f, known := p.take(query.Get("state"), browser)
	if !known {
		return who, refused("This login has expired, or was begun in another browser. Sign in again.")
	}
	if said := query.Get("error"); said != "" {
		return who, refused("%s refused the login: %s.", p.Name(), text.TruncateRunes(strings.TrimRight(text.SingleLine(said+" "+query.Get("error_description")), " ."), 300))
	}
	about, err := p.discover(ctx)
	if err != nil {
		return who, err
	}
	ctx = oidc.ClientContext(ctx, p.client)
	tokens, err := p.config(about, f.redirect).Exchange(ctx, query.Get("code"), oauth2.VerifierOption(f.verifier))
	if err != nil {
		p.remember(nil)
		return who, p.unconfirmed(err)
	}
	raw, _ := tokens.Extra("id_token").(string)
	token, err := p.verifier(about).Verify(ctx, raw)
	if late := (*oidc.TokenExpiredError)(nil); errors.As(err, &late) {
		return who, fault.Wrap(fault.Denied, err, "The answer of %s has expired already. Ask an operator to compare the clocks of both machines.", p.Name())
	}
	if err != nil {
		p.remember(nil)
		return who, fault.Wrap(fault.Denied, err, "The answer of %s is not valid. Sign in again, or ask an operator.", p.Name())
	}
	if subtle.ConstantTimeCompare([]byte(token.Nonce), []byte(f.nonce)) != 1 {
		return who, refused("The answer of %s belongs to another login. Sign in again.", p.Name())
	}
	c, err := p.read(token)
	if err != nil {
		return who, fault.Wrap(fault.Denied, err, "The answer of %s cannot be read. Ask an operator.", p.Name())
	}
	if c.Party != "" && c.Party != p.o.ClientID {
		return who, refused("The answer of %s is for another program.", p.Name())
	}
	return p.admit(token, c, func() (more claims, err error) {
		info, err := about.UserInfo(ctx, oauth2.StaticTokenSource(tokens))
		if err != nil {
			return more, err
		}
		if info.Subject != token.Subject {
			return more, errors.New("the user info is that of another person")
		}
		return p.read(info)
	})
}

func (p *Provider) verifier(about *oidc.Provider) *oidc.IDTokenVerifier {
	return about.Verifier(&oidc.Config{ClientID: p.o.ClientID, Now: p.o.Now})
}

// Exit is the address at which a browser signs out of the provider (OpenID Connect RP-Initiated
// Logout 1.0). Without a hint, the provider asks the person.
func (p *Provider) Exit(ctx context.Context) (string, error) {
	about, err := p.discover(ctx)
	if err != nil {
		return "", err
	}
	var offer struct {
		Exit string `json:"end_session_endpoint"`
	}
	if about.Claims(&offer) != nil || !strings.HasPrefix(offer.Exit, "http") {
		return "", fault.New(fault.NotFound, "%s does not say where to sign out. Open its own page, and sign out there.", p.Name())
	}
	sign := "?"
	if strings.Contains(offer.Exit, sign) {
		sign = "&"
	}
	return offer.Exit + sign + url.Values{"client_id": {p.o.ClientID}}.Encode(), nil
}

// Ended checks a logout token (OpenID Connect Back-Channel Logout 1.0), and returns the subject. A
// token that names only a session is refused, because Lilac does not keep those of the provider.
func (p *Provider) Ended(ctx context.Context, raw string) (subject string, err error) {
	about, err := p.discover(ctx)
	if err != nil {
		return "", err
	}
	token, err := p.verifier(about).VerifyLogout(oidc.ClientContext(ctx, p.client), raw)
	if err != nil {
		return "", fault.Wrap(fault.Invalid, err, "The logout token is not valid")
	}
	if token.Subject == "" {
		return "", fault.InvalidField("logout_token", "The logout token has no sub.")
	}
	return token.Issuer + " " + token.Subject, nil
}

// unconfirmed says why the provider gave no token for a code.
func (p *Provider) unconfirmed(err error) error {
	var said *oauth2.RetrieveError
	switch {
	case !errors.As(err, &said):
		return p.unreachable(err)
	case said.ErrorCode == "invalid_client" || said.ErrorCode == "unauthorized_client":
		return fault.Wrap(fault.Denied, err, "%s does not accept Lilac (%s). Ask an operator to check accounts.oidc.clientId and clientSecret.", p.Name(), said.ErrorCode)
	}
	return fault.Wrap(fault.Denied, err, "%s did not confirm the login. Sign in again.", p.Name())
}

// claims are the parts of an ID token, or of the user info, that are not in every one.
type claims struct {
	Party    string          `json:"azp"`
	Email    string          `json:"email"`
	Verified json.RawMessage `json:"email_verified"`
	Name     string          `json:"name"`
	Login    string          `json:"preferred_username"`
	Groups   json.RawMessage `json:"-"`
	// Domain takes the place of Verified in tokens of Microsoft Entra. Elsewhere takes the place of Groups there
	// if the person is in too many.
	Domain    json.RawMessage `json:"xms_edov"`
	Elsewhere json.RawMessage `json:"_claim_names"`
}

// read returns the claims of an ID token, or of the user info.
func (p *Provider) read(from interface{ Claims(v any) error }) (c claims, err error) {
	var all map[string]json.RawMessage
	err = errors.Join(from.Claims(&c), from.Claims(&all))
	c.Groups = all[p.o.GroupsClaim]
	if len(c.Verified) == 0 {
		c.Verified = c.Domain
	}
	return c, err
}

// asksGroups reports whether the groups of a person matter.
func (p *Provider) asksGroups() bool { return len(p.o.Groups)+len(p.o.Operators) > 0 }

// complete reports whether the user info could add nothing that counts.
func (p *Provider) complete(c claims) bool {
	return c.Email != "" && len(c.Verified) > 0 && c.Name != "" && (len(c.Groups) > 0 || !p.asksGroups())
}

// add fills in the claims that are missing. An address and its verification stay together.
func (c *claims) add(more claims) {
	if more.Email != "" && (c.Email == "" || len(c.Verified) == 0) {
		c.Email, c.Verified = more.Email, more.Verified
	}
	if len(c.Groups) == 0 {
		c.Groups = more.Groups
	}
	c.Name, c.Login = cmp.Or(c.Name, more.Name), cmp.Or(c.Login, more.Login)
}

// admit returns the person if one of the lists has them. Many providers name the address and the
// groups only in the user info (OpenID Connect Core 1.0, section 5.4), so it is read if the ID token
// lacks something.
func (p *Provider) admit(token *oidc.IDToken, c claims, userInfo func() (claims, error)) (account.Subject, error) {
	var unread error
	if !p.complete(c) {
		var more claims
		if more, unread = userInfo(); unread == nil {
			c.add(more)
		}
	}
	if token.Subject == "" || len(token.Subject) > maxClaim || len(c.Email) > maxClaim {
		return account.Subject{}, refused("The answer of %s does not say who you are.", p.Name())
	}
	who := account.Subject{ID: token.Issuer + " " + token.Subject, Name: text.TruncateRunes(text.SingleLine(cmp.Or(c.Name, c.Login)), 60), Role: p.o.Role, Sync: len(p.o.Operators) > 0, Stay: p.o.Stay}
	// Some providers write the flag as a string, and Entra as a number.
	switch strings.Trim(string(c.Verified), `"`) {
	case "true", "1":
		who.Email = text.SingleLine(c.Email)
	}
	groups := groupsOf(c.Groups)
	if in(groups, p.o.Operators) {
		who.Role = account.Operator
		return who, nil
	}
	if !p.allows(who.Email, groups) {
		f := refused("You may not use this server. Ask an operator to list you under accounts.oidc.allow%s.", p.whyNot(c, who.Email, groups))
		f.Err = unread
		return account.Subject{}, f
	}
	return who, nil
}

// whyNot says what the provider did not.
func (p *Provider) whyNot(c claims, verified string, groups []string) string {
	switch addresses := len(p.o.Emails)+len(p.o.Domains) > 0; {
	case verified == "" && c.Email != "" && addresses && strings.Contains(p.o.Issuer, "login.microsoftonline."):
		return " by a group, or to add the optional claim xms_edov in Microsoft Entra, which does not say that your e-mail address is verified"
	case verified == "" && c.Email != "" && addresses:
		return ", or verify your e-mail address at the provider, which does not say that it is verified"
	case len(groups) == 0 && p.asksGroups() && len(c.Elsewhere) > 0:
		return "; you are in so many groups that " + p.Name() + " names none. It must name only those assigned to the application"
	case len(groups) == 0 && p.asksGroups():
		return "; " + p.Name() + " names no groups of yours in the claim " + p.o.GroupsClaim
	case c.Email == "" && addresses:
		return "; " + p.Name() + " does not name your e-mail address"
	}
	return ""
}

// groupsOf reads a claim that is a list, one name, or with Zitadel an object with a key for each.
func groupsOf(raw json.RawMessage) (groups []string) {
	var one string
	var keys map[string]json.RawMessage
	switch {
	case json.Unmarshal(raw, &groups) == nil:
	case json.Unmarshal(raw, &one) == nil:
		groups = []string{one}
	case json.Unmarshal(raw, &keys) == nil:
		groups = slices.Collect(maps.Keys(keys))
	}
	return groups
}

// in reports whether one of the groups is listed.
func in(groups, listed []string) bool {
	return slices.ContainsFunc(groups, func(g string) bool { return g != "" && slices.Contains(listed, g) })
}

// allows reports whether a list has the verified address, its domain, or one of the groups.
func (p *Provider) allows(email string, groups []string) bool {
	if in(groups, p.o.Groups) {
		return true
	}
	at := strings.LastIndexByte(email, '@')
	if at < 1 {
		return false
	}
	for _, allowed := range p.o.Emails {
		if strings.EqualFold(email, allowed) {
			return true
		}
	}
	for _, allowed := range p.o.Domains {
		if strings.EqualFold(email[at+1:], allowed) {
			return true
		}
	}
	return false
}
