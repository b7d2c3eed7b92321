package oidclogin

import (
	"errors"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"lilac/internal/core/account"
	"lilac/internal/foundation/fault"
	"lilac/internal/testkit/oidctest"
)

const redirect = "http://lilac.example/oidc/callback"

func newPair(t *testing.T) (*oidctest.Provider, *Provider) {
	t.Helper()
	there := oidctest.New(t)
	return there, New(Options{
		Issuer: there.URL, ClientID: oidctest.ClientID, ClientSecret: oidctest.ClientSecret,
		Emails: []string{"Ada@lilac.example"}, Domains: []string{"team.example"}, Groups: []string{"lilac-users"},
	})
}

// begin begins a login and follows the browser to the provider. It returns what comes back.
func begin(t *testing.T, p *Provider) (flow string, back url.Values) {
	t.Helper()
	address, flow, err := p.Start(t.Context(), "", redirect)
	if err != nil {
		t.Fatal(err)
	}
	return flow, follow(t, address)
}

func TestPeopleOfTheListsMaySignIn(t *testing.T) {
	there, p := newPair(t)
	for name, c := range map[string]struct {
		claims map[string]any
		want   string // e-mail, or "" if refused
		ok     bool
	}{
		"a listed address":           {map[string]any{"email": "ada@lilac.example", "email_verified": true, "name": "Ada"}, "ada@lilac.example", true},
		"as a string":                {map[string]any{"email": "ada@lilac.example", "email_verified": "true"}, "ada@lilac.example", true},
		"a listed domain":            {map[string]any{"email": "bob@TEAM.example", "email_verified": true}, "bob@TEAM.example", true},
		"a listed group":             {map[string]any{"groups": []string{"x", "lilac-users"}}, "", true},
		"one group":                  {map[string]any{"groups": "lilac-users"}, "", true},
		"a group, unverified":        {map[string]any{"groups": "lilac-users", "email": "ada@lilac.example"}, "", true},
		"an unverified address":      {map[string]any{"email": "ada@lilac.example", "email_verified": false}, "", false},
		"without a word about it":    {map[string]any{"email": "ada@lilac.example"}, "", false},
		"another address":            {map[string]any{"email": "eve@lilac.example", "email_verified": true}, "", false},
		"a domain that ends like it": {map[string]any{"email": "eve@notteam.example", "email_verified": true}, "", false},
		"a domain below it":          {map[string]any{"email": "eve@x.team.example", "email_verified": true}, "", false},
		"two at signs":               {map[string]any{"email": "eve@team.example@evil.example", "email_verified": true}, "", false},
		"nothing":                    {map[string]any{}, "", false},
		"no subject":                 {map[string]any{"sub": "", "groups": "lilac-users"}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			claims := map[string]any{"sub": "7"}
			for k, v := range c.claims {
				claims[k] = v
			}
			there.Person(claims)
			flow, back := begin(t, p)
			who, err := p.Finish(t.Context(), flow, back)
			if (err == nil) != c.ok || who.Email != c.want {
				t.Fatalf("%+v, %v", who, err)
			}
			if c.ok && (who.ID != there.URL+" 7" || who.Role != account.Member) {
				t.Errorf("the person is %+v", who)
			}
			if !c.ok && fault.KindOf(err) != fault.Denied {
				t.Errorf("the refusal is %v", err)
			}
		})
	}
}

// Each attack is refused. The control is the same login without it.
func TestAttacksOnALoginAreRefused(t *testing.T) {
	there, p := newPair(t)
	there.Person(map[string]any{"sub": "7", "groups": "lilac-users"})
	there.Reuse()
	set := func(key string, v any) func(map[string]any) string {
		return func(claims map[string]any) string { claims[key] = v; return "" }
	}
	alg := func(name string) func(map[string]any) string { return func(map[string]any) string { return name } }
	for name, forge := range map[string]func(map[string]any) string{
		"a wrong nonce":           set("nonce", "other"),
		"no nonce":                set("nonce", ""),
		"another audience":        set("aud", "other"),
		"another issuer":          set("iss", "https://evil.example"),
		"an expired token":        set("exp", time.Now().Add(-time.Hour).Unix()),
		"for another party":       set("azp", "other"),
		"without a signature":     alg("none"),
		"signed with public data": alg("HS256"),
		"signed by somebody else": alg("foreign"),
	} {
		t.Run(name, func(t *testing.T) {
			there.Forge(forge)
			flow, back := begin(t, p)
			if who, err := p.Finish(t.Context(), flow, back); fault.KindOf(err) != fault.Denied {
				t.Errorf("%+v, %v", who, err)
			}
			there.Forge(nil)
			flow, back = begin(t, p)
			if _, err := p.Finish(t.Context(), flow, back); err != nil {
				t.Errorf("control: %v", err)
			}
		})
	}
	for name, change := range map[string]func(flow string, back url.Values) string{
		"a wrong state": func(flow string, back url.Values) string { back.Set("state", "other"); return flow },
		"no state":      func(flow string, back url.Values) string { back.Del("state"); return flow },
		"another flow": func(string, url.Values) string {
			other, _ := begin(t, p)
			return other
		},
		"no flow":      func(string, url.Values) string { return "" },
		"a wrong code": func(flow string, back url.Values) string { back.Set("code", "x"); return flow },
		"an error":     func(flow string, back url.Values) string { back.Set("error", "access_denied"); return flow },
		"a code of another login": func(flow string, back url.Values) string {
			_, other := begin(t, p)
			back.Set("code", other.Get("code")) // PKCE binds it to the other flow
			return flow
		},
	} {
		t.Run(name, func(t *testing.T) {
			flow, back := begin(t, p)
			flow = change(flow, back)
			if who, err := p.Finish(t.Context(), flow, back); fault.KindOf(err) != fault.Denied {
				t.Errorf("%+v, %v", who, err)
			}
		})
	}
	t.Run("a replayed answer", func(t *testing.T) {
		flow, back := begin(t, p)
		if _, err := p.Finish(t.Context(), flow, back); err != nil {
			t.Fatal(err)
		}
		if who, err := p.Finish(t.Context(), flow, back); fault.KindOf(err) != fault.Denied {
			t.Errorf("%+v, %v", who, err)
		}
	})
	t.Run("a late answer", func(t *testing.T) {
		flow, back := begin(t, p)
		p.o.Now = func() time.Time { return time.Now().Add(flowAge) }
		defer func() { p.o.Now = time.Now }()
		if who, err := p.Finish(t.Context(), flow, back); fault.KindOf(err) != fault.Denied {
			t.Errorf("%+v, %v", who, err)
		}
	})
}

func TestAProviderThatIsDownFailsOnlyTheLogin(t *testing.T) {
	there, p := newPair(t)
	there.Down(true)
	_, _, err := p.Start(t.Context(), "", redirect)
	var f *fault.Error
	if !errors.As(err, &f) || f.Kind != fault.Unavailable || !strings.Contains(f.Message, "does not answer as it should") {
		t.Fatalf("the failure is %v", err)
	}
	there.Down(false)
	there.Person(map[string]any{"sub": "7", "groups": "lilac-users"})
	flow, back := begin(t, p)
	if _, err := p.Finish(t.Context(), flow, back); err != nil {
		t.Errorf("after it came back: %v", err)
	}
}

func TestLoginsThatHaveBegunAreBounded(t *testing.T) {
	_, p := newPair(t)
	for i := range maxFlows + 50 {
		p.keep(strconv.Itoa(i), flow{browser: "b", expires: time.Now().Add(flowAge)})
	}
	if len(p.flows) > maxFlows || len(p.order) > maxFlows {
		t.Errorf("%d flows, %d in order", len(p.flows), len(p.order))
	}
}
