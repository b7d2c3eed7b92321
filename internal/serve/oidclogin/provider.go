package oidclogin

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
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
	// Role is that of a person who signs in for the first time.
	Role account.Role
	Now  func() time.Time
}

// Provider signs in people.
type Provider struct {
	o      Options
	client *http.Client

	mu sync.Mutex
	// discovered describes the provider, by its own document; nil before the first login.
	discovered *oidc.Provider
	flows      map[string]flow
	order      []string // of flows, the oldest first
}

// flow is a login that has begun.
type flow struct {
	state, nonce, verifier, redirect string
	expires                          time.Time
}

// New returns a provider. It makes no calls.
func New(o Options) *Provider {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Role == "" {
		o.Role = account.Member
	}
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

// Start begins a login. The browser keeps the id of the flow, and goes to the address.
func (p *Provider) Start(ctx context.Context, redirect string) (address, id string, err error) {
	about, err := p.discover(ctx)
	if err != nil {
		return "", "", err
	}
	id = rand.Text()
	f := flow{state: rand.Text(), nonce: rand.Text(), verifier: oauth2.GenerateVerifier(), redirect: redirect, expires: p.o.Now().Add(flowAge)}
	p.keep(id, f)
	return p.config(about, redirect).AuthCodeURL(f.state, oidc.Nonce(f.nonce), oauth2.S256ChallengeOption(f.verifier)), id, nil
}

func (p *Provider) config(about *oidc.Provider, redirect string) *oauth2.Config {
	return &oauth2.Config{
		ClientID: p.o.ClientID, ClientSecret: p.o.ClientSecret, Endpoint: about.Endpoint(), RedirectURL: redirect,
		Scopes: []string{oidc.ScopeOpenID, "email", "profile"},
	}
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
	about, err := oidc.NewProvider(oidc.ClientContext(context.WithoutCancel(ctx), p.client), p.o.Issuer)
	if err != nil {
		return nil, p.unreachable(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.discovered = about
	return about, nil
}

func (p *Provider) unreachable(err error) error {
	return fault.Wrap(fault.Unavailable, err, "The login provider %s does not answer as it should. Try again later, or ask an operator to check accounts.oidc.issuer.", p.Name())
}

// keep stores a flow.
func (p *Provider) keep(id string, f flow) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.order) > 0 && (len(p.flows) >= maxFlows || !p.o.Now().Before(p.flows[p.order[0]].expires)) {
		delete(p.flows, p.order[0])
		p.order = p.order[1:]
	}
	p.flows[id] = f
	p.order = append(p.order, id)
}

// take returns a flow, which cannot be used again.
func (p *Provider) take(id string) (flow, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f, known := p.flows[id]
	if known {
		p.flows[id] = flow{} // it stays in the order until it expires
	}
	return f, known && f.state != "" && p.o.Now().Before(f.expires)
}

// refused is a login that does not count.
func refused(format string, args ...any) error {
	f := fault.New(fault.Denied, format, args...)
	f.Code = "oidc_refused"
	return f
}

// Finish checks what the browser brought back, and returns the person.
func (p *Provider) Finish(ctx context.Context, id string, query url.Values) (who account.Subject, err error) {
	f, known := p.take(id)
	if !known {
		return who, refused("This login has expired, or was begun in another browser. Sign in again.")
	}
	if subtle.ConstantTimeCompare([]byte(query.Get("state")), []byte(f.state)) != 1 {
		return who, refused("This login was not begun here. Sign in again.")
	}
	if said := query.Get("error"); said != "" {
		return who, refused("%s refused the login: %s.", p.Name(), text.TruncateRunes(text.SingleLine(said), 60))
	}
	about, err := p.discover(ctx)
	if err != nil {
		return who, err
	}
	ctx = oidc.ClientContext(ctx, p.client)
	tokens, err := p.config(about, f.redirect).Exchange(ctx, query.Get("code"), oauth2.VerifierOption(f.verifier))
	if err != nil {
		return who, fault.Wrap(fault.Denied, err, "%s did not confirm the login. Sign in again.", p.Name())
	}
	raw, _ := tokens.Extra("id_token").(string)
	token, err := about.Verifier(&oidc.Config{ClientID: p.o.ClientID, Now: p.o.Now}).Verify(ctx, raw)
	if err != nil {
		return who, fault.Wrap(fault.Denied, err, "The answer of %s is not valid. Sign in again, or ask an operator.", p.Name())
	}
	if subtle.ConstantTimeCompare([]byte(token.Nonce), []byte(f.nonce)) != 1 {
		return who, refused("The answer of %s belongs to another login. Sign in again.", p.Name())
	}
	var c claims
	if err := token.Claims(&c); err != nil {
		return who, fault.Wrap(fault.Denied, err, "The answer of %s cannot be read. Ask an operator.", p.Name())
	}
	if c.Party != "" && c.Party != p.o.ClientID {
		return who, refused("The answer of %s is for another program.", p.Name())
	}
	return p.admit(token, c)
}

// claims are the parts of an ID token that are not standard in every one.
type claims struct {
	Party    string          `json:"azp"`
	Email    string          `json:"email"`
	Verified json.RawMessage `json:"email_verified"`
	Name     string          `json:"name"`
	Groups   json.RawMessage `json:"groups"`
}

// admit returns the person if one of the lists has them.
func (p *Provider) admit(token *oidc.IDToken, c claims) (account.Subject, error) {
	if token.Subject == "" || len(token.Subject) > maxClaim || len(c.Email) > maxClaim {
		return account.Subject{}, refused("The answer of %s does not say who you are.", p.Name())
	}
	who := account.Subject{ID: token.Issuer + " " + token.Subject, Name: text.TruncateRunes(text.SingleLine(c.Name), 60), Role: p.o.Role}
	// Some providers write the flag as a string.
	if verified := string(c.Verified); verified == "true" || verified == `"true"` {
		who.Email = text.SingleLine(c.Email)
	}
	if !p.allows(who.Email, groupsOf(c.Groups)) {
		return account.Subject{}, refused("You may not use this server. Ask an operator to list you under accounts.oidc.allow%s.", whyNot(c.Email, who.Email))
	}
	return who, nil
}

func whyNot(email, verified string) string {
	if email != "" && verified == "" {
		return ", or verify your e-mail address at the provider"
	}
	return ""
}

// groupsOf reads a claim that is a list, or one name.
func groupsOf(raw json.RawMessage) (groups []string) {
	var one string
	if json.Unmarshal(raw, &groups) != nil && json.Unmarshal(raw, &one) == nil {
		groups = []string{one}
	}
	return groups
}

// allows reports whether a list has the verified address, its domain, or one of the groups.
func (p *Provider) allows(email string, groups []string) bool {
	for _, g := range groups {
		for _, allowed := range p.o.Groups {
			if g == allowed && g != "" {
				return true
			}
		}
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
