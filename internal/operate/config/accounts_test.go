package config

import (
	"errors"
	"testing"
	"time"

	"lilac/internal/foundation/fault"
)

func TestTheSettingsOfAccountsAreChecked(t *testing.T) {
	good := OIDCUser{Issuer: "https://id.example", ClientID: "lilac", Allow: OIDCAllow{Domains: []string{"team.example"}}}
	with := func(f func(*Accounts)) Accounts {
		a := Accounts{OIDC: good}
		f(&a)
		return a
	}
	for name, c := range map[string]struct {
		accounts Accounts
		wrong    string // the field, or "" if there is no mistake
	}{
		"nothing":             {Accounts{}, ""},
		"a provider":          {with(func(*Accounts) {}), ""},
		"on this machine":     {with(func(a *Accounts) { a.OIDC.Issuer = "http://127.0.0.1:9000" }), ""},
		"without TLS":         {with(func(a *Accounts) { a.OIDC.Issuer = "http://id.example" }), "accounts.oidc.issuer"},
		"no address":          {with(func(a *Accounts) { a.OIDC.Issuer = "id.example" }), "accounts.oidc.issuer"},
		"no issuer":           {Accounts{OIDC: OIDCUser{ClientID: "lilac"}}, "accounts.oidc.issuer"},
		"no client":           {with(func(a *Accounts) { a.OIDC.ClientID = "" }), "accounts.oidc.clientId"},
		"nobody":              {with(func(a *Accounts) { a.OIDC.Allow = OIDCAllow{} }), "accounts.oidc.allow"},
		"a pattern":           {with(func(a *Accounts) { a.OIDC.Allow.Domains = []string{"*.example"} }), "accounts.oidc.allow.domains"},
		"a domain with an at": {with(func(a *Accounts) { a.OIDC.Allow.Domains = []string{"@team.example"} }), "accounts.oidc.allow.domains"},
		"no mail address":     {with(func(a *Accounts) { a.OIDC.Allow.Emails = []string{"ada"} }), "accounts.oidc.allow.emails"},
		"another role":        {with(func(a *Accounts) { a.OIDC.Role = "king" }), "accounts.oidc.role"},
		"operators":           {with(func(a *Accounts) { a.OIDC.Allow, a.OIDC.Operators = OIDCAllow{}, []string{"admins"} }), ""},
		"all are operators":   {with(func(a *Accounts) { a.OIDC.Role, a.OIDC.Operators = "operator", []string{"admins"} }), "accounts.oidc.role"},
		"a short stay":        {with(func(a *Accounts) { a.OIDC.Stay = Duration(time.Minute) }), "accounts.oidc.stay"},
		"a long stay":         {with(func(a *Accounts) { a.OIDC.Stay = Duration(721 * time.Hour) }), "accounts.oidc.stay"},
		"an address":          {Accounts{URL: "https://lilac.example.com"}, ""},
		"a path":              {Accounts{URL: "https://tools.example.com/lilac"}, ""},
		"a query":             {Accounts{URL: "https://lilac.example.com/?x=1"}, "accounts.url"},
		"a host":              {Accounts{URL: "lilac.example.com"}, "accounts.url"},
	} {
		t.Run(name, func(t *testing.T) {
			err := checker{Config: &Config{Accounts: c.accounts}}.checkAccounts()
			var f *fault.Error
			field := ""
			if errors.As(err, &f) {
				field = f.Field
			}
			if field != c.wrong {
				t.Errorf("the mistake is %v, want one in %q", err, c.wrong)
			}
		})
	}
}
