package oidclogin

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"lilac/internal/core/account"
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

// Each provider names groups in a claim of its own, and a group may make a person an operator.
func TestGroupsDecideWhatAPersonIs(t *testing.T) {
	there, p := newPair(t)
	p.o.Operators, p.o.Stay = []string{"admins"}, time.Hour
	for name, c := range map[string]struct {
		claim  string
		claims map[string]any
		role   account.Role // "" if refused
	}{
		"an operator":         {"groups", map[string]any{"groups": []string{"x", "admins"}}, account.Operator},
		"a member":            {"groups", map[string]any{"groups": []string{"lilac-users"}}, account.Member},
		"a member by address": {"groups", map[string]any{"email": "bob@team.example", "email_verified": true, "groups": []string{}}, account.Member},
		"nobody":              {"groups", map[string]any{"groups": []string{"others"}}, ""},
		"of Cognito":          {"cognito:groups", map[string]any{"cognito:groups": []string{"admins"}}, account.Operator},
		"of Auth0":            {"https://team.example/roles", map[string]any{"https://team.example/roles": []string{"lilac-users"}}, account.Member},
		"of Zitadel":          {"urn:zitadel:iam:org:project:roles", map[string]any{"urn:zitadel:iam:org:project:roles": map[string]any{"admins": map[string]any{"1": "team.example"}}}, account.Operator},
		"in another claim":    {"roles", map[string]any{"groups": []string{"admins"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p.o.GroupsClaim, c.claims["sub"] = c.claim, "7"
			there.Person(c.claims)
			flow, back := begin(t, p)
			who, err := p.Finish(t.Context(), flow, back)
			if who.Role != c.role || (err == nil) != (c.role != "") || err == nil && (!who.Sync || who.Stay != time.Hour) {
				t.Errorf("%+v, %v", who, err)
			}
		})
	}
}

// Microsoft Entra has no email_verified, and leaves out groups if there are many.
func TestWhatEntraSays(t *testing.T) {
	there, p := newPair(t)
	for name, c := range map[string]struct {
		claims map[string]any
		want   string // a part of the refusal, or "" for none
	}{
		"an address of the tenant's domain": {map[string]any{"email": "bob@team.example", "xms_edov": true}, ""},
		"as a number":                       {map[string]any{"email": "bob@team.example", "xms_edov": 1}, ""},
		"as a text":                         {map[string]any{"email": "bob@team.example", "xms_edov": "1"}, ""},
		"an address of somebody's":          {map[string]any{"email": "bob@team.example", "xms_edov": false}, "add the optional claim xms_edov"},
		"no word about the address":         {map[string]any{"email": "bob@team.example", "preferred_username": "bob@team.example"}, "add the optional claim xms_edov"},
		"what the provider denies":          {map[string]any{"email": "bob@team.example", "email_verified": false, "xms_edov": true}, "add the optional claim xms_edov"},
		"too many groups":                   {map[string]any{"_claim_names": map[string]any{"groups": "src1"}, "_claim_sources": map[string]any{"src1": map[string]any{"endpoint": "https://graph.example/getMemberObjects"}}}, "only those assigned to the application"},
		"a name like an address":            {map[string]any{"preferred_username": "bob@team.example"}, "names no groups of yours in the claim groups"},
	} {
		t.Run(name, func(t *testing.T) {
			c.claims["sub"] = "7"
			there.Person(c.claims)
			flow, back := begin(t, p)
			p.o.Issuer = "https://login.microsoftonline.com/tenant/v2.0"
			defer func() { p.o.Issuer = there.URL }()
			_, err := p.Finish(t.Context(), flow, back)
			if got := fault.ToWire(err).Message; (err == nil) != (c.want == "") || err != nil && !strings.Contains(got, c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func TestAnIssuerOfAnotherNameIsNamed(t *testing.T) {
	there := oidctest.New(t)
	_, _, err := New(Options{Issuer: strings.Replace(there.URL, "127.0.0.1", "localhost", 1)}).Start(t.Context(), "", redirect)
	if fault.KindOf(err) != fault.Unavailable || !strings.Contains(fault.ToWire(err).Message, "calls itself "+there.URL) {
		t.Error(err)
	}
}

func TestADifferenceOfTheClocksIsNamed(t *testing.T) {
	there, p := newPair(t)
	there.Person(map[string]any{"sub": "7", "groups": "lilac-users"})
	flow, back := begin(t, p)
	p.o.Now = func() time.Time { return time.Now().Add(5 * time.Minute) }
	if _, err := p.Finish(t.Context(), flow, back); fault.KindOf(err) != fault.Denied || !strings.Contains(fault.ToWire(err).Message, "clocks") {
		t.Error(err)
	}
}

// A provider that is set up anew may sign in another way.
func TestAfterAFailureTheProviderIsAskedAnew(t *testing.T) {
	there, p := newPair(t)
	there.Person(map[string]any{"sub": "7", "groups": "lilac-users"})
	there.Sign("RS512")
	for _, ok := range []bool{true, false, true} {
		flow, back := begin(t, p)
		if _, err := p.Finish(t.Context(), flow, back); (err == nil) != ok {
			t.Fatalf("%v, want %v", err, ok)
		}
		there.Sign("RS256")
	}
}

func TestTheProviderEndsALogin(t *testing.T) {
	there, p := newPair(t)
	if address, err := p.Exit(t.Context()); err != nil || address != there.URL+"/exit?realm=x&client_id=lilac" {
		t.Errorf("the browser signs out at %q, %v", address, err)
	}
	if subject, err := p.Ended(t.Context(), there.LogoutToken(nil)); err != nil || subject != there.URL+" 1" {
		t.Errorf("%q, %v", subject, err)
	}
	for name, change := range map[string]map[string]any{
		"an ID token":  {"events": nil, "nonce": "x"},
		"with a nonce": {"nonce": "x"},
		"of a session": {"sub": nil, "sid": "1"},
		"of another":   {"iss": "https://evil.example"},
		"for another":  {"aud": "other"},
		"an old one":   {"exp": time.Now().Add(-time.Hour).Unix()},
	} {
		if subject, err := p.Ended(t.Context(), there.LogoutToken(change)); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s: %q, %v", name, subject, err)
		}
	}
	if _, err := p.Ended(t.Context(), ""); fault.KindOf(err) != fault.Invalid {
		t.Error(err)
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
