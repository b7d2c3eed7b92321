package oidclogin

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"lilac/internal/foundation/fault"
	"lilac/internal/testkit/oidctest"
)

// node-oidc-provider, Authelia, and Zitadel name only the subject in the ID token, and groups only for
// a scope of this name.
func TestWhatOnlyTheUserInfoSaysCounts(t *testing.T) {
	there, p := newPair(t)
	for name, c := range map[string]struct {
		token, info map[string]any
		email, name string
		ok          bool
	}{
		"a verified address":     {nil, map[string]any{"email": "bob@team.example", "email_verified": true, "name": "Bob"}, "bob@team.example", "Bob", true},
		"groups":                 {nil, map[string]any{"groups": []string{"lilac-users"}, "preferred_username": "bob"}, "", "bob", true},
		"an unverified address":  {nil, map[string]any{"email": "bob@team.example"}, "", "", false},
		"the word about it":      {map[string]any{"email": "bob@team.example"}, map[string]any{"email": "bob@team.example", "email_verified": true}, "bob@team.example", "", true},
		"of another address":     {map[string]any{"email": "bob@team.example"}, map[string]any{"email": "bob@evil.example", "email_verified": true}, "", "", false},
		"against the ID token":   {map[string]any{"email": "bob@team.example", "email_verified": false}, map[string]any{"email": "bob@team.example", "email_verified": true}, "", "", false},
		"about another person":   {nil, map[string]any{"sub": "8", "email": "bob@team.example", "email_verified": true}, "", "", false},
		"word without addresses": {map[string]any{"email": "bob@team.example"}, map[string]any{"email_verified": true}, "", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			claims := map[string]any{"sub": "7"}
			for k, v := range c.token {
				claims[k] = v
			}
			there.Person(claims)
			there.UserInfo(c.info)
			flow, back := begin(t, p)
			who, err := p.Finish(t.Context(), flow, back)
			if (err == nil) != c.ok || who.Email != c.email || who.Name != c.name {
				t.Errorf("%+v, %v", who, err)
			}
		})
	}
}

// A browser has one cookie. Its tabs may be at the provider at the same time.
func TestTwoTabsOfABrowserSignIn(t *testing.T) {
	there, p := newPair(t)
	there.Person(map[string]any{"sub": "7", "groups": "lilac-users"})
	there.Reuse()
	browser, one := begin(t, p)
	address, again, err := p.Start(t.Context(), browser, redirect)
	if err != nil || again != browser {
		t.Fatalf("the second tab gets %q, %v", again, err)
	}
	two := follow(t, address)
	if who, err := p.Finish(t.Context(), "another browser, or none at", two); fault.KindOf(err) != fault.Denied {
		t.Errorf("another browser: %+v, %v", who, err)
	}
	for _, back := range []url.Values{one, two} {
		if _, err := p.Finish(t.Context(), browser, back); err != nil {
			t.Error(err)
		}
	}
	if who, err := p.Finish(t.Context(), browser, one); fault.KindOf(err) != fault.Denied {
		t.Errorf("again: %+v, %v", who, err)
	}
	if _, id, err := p.Start(t.Context(), "short", redirect); err != nil || id == "short" {
		t.Errorf("an id that is not ours: %q, %v", id, err)
	}
}

func TestTheIssuerMayLackItsSlash(t *testing.T) {
	there, p := newPair(t)
	there.EndWithSlash()
	there.Person(map[string]any{"sub": "7", "groups": "lilac-users"})
	flow, back := begin(t, p)
	if who, err := p.Finish(t.Context(), flow, back); err != nil || who.ID != there.URL+"/ 7" {
		t.Errorf("%+v, %v", who, err)
	}
}

// A failure names what an operator has to check, and keeps the cause for the log.
func TestAFailureSaysWhy(t *testing.T) {
	there, p := newPair(t)
	there.Person(map[string]any{"sub": "7"})
	for name, c := range map[string]struct {
		change func(back url.Values)
		kind   fault.Kind
		want   string
	}{
		"a wrong secret": {func(url.Values) { p.o.ClientSecret = "other" }, fault.Denied, "clientSecret"},
		"a refusal":      {func(back url.Values) { back.Set("error", "access_denied"); back.Set("error_description", "Not you.") }, fault.Denied, "access_denied Not you."},
		"no groups":      {func(url.Values) {}, fault.Denied, "names no groups of yours"},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() { p.o.ClientSecret = oidctest.ClientSecret }()
			flow, back := begin(t, p)
			c.change(back)
			_, err := p.Finish(t.Context(), flow, back)
			var f *fault.Error
			if !errors.As(err, &f) || f.Kind != c.kind || !strings.Contains(f.Message, c.want) {
				t.Errorf("the failure is %v", err)
			}
		})
	}
}

// follow visits the provider as a browser does, and returns the query with which it comes back.
func follow(t *testing.T, address string) url.Values {
	t.Helper()
	c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := c.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	u, err := res.Location()
	if err != nil || !strings.HasPrefix(u.String(), redirect+"?") {
		t.Fatalf("the provider sends the browser to %v, %v", u, err)
	}
	return u.Query()
}
