package config

import (
	"errors"
	"net/url"
	"strings"
	"time"

	"lilac/internal/core/account"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/grant"
)

// Accounts configures the people of a team.
type Accounts struct {
	URL    string   `json:"url,omitempty" jsonschema:"The address under which people reach the page, for example https://lilac.example.com or https://tools.example.com/lilac, for links and for the login with OIDC. Its host must also be in allowedHosts. Default: the address of the request that creates a link."`
	Member Member   `json:"member,omitempty" jsonschema:"What members may have the agent do."`
	OIDC   OIDCUser `json:"oidc,omitempty" jsonschema:"Login with an OpenID Connect provider. Register the redirect address accounts.url + /oidc/callback there."`
}

// Member configures what members may have the agent do.
type Member struct {
	Tools grant.Config `json:"tools,omitempty" jsonschema:"The tools and callables of requests that members ask for. Default: all, because a member is a colleague whom you trust."`
}

// OIDCUser configures the provider that identifies people, and which of them may use Lilac.
type OIDCUser struct {
	Name         string    `json:"name,omitempty" jsonschema:"The name of the provider on the button of the login page. Default: the host of issuer."`
	Issuer       string    `json:"issuer,omitempty" jsonschema:"The address of the provider, for example https://accounts.google.com. Without it, there is no login with OIDC."`
	ClientID     string    `json:"clientId,omitempty" jsonschema:"The ID of Lilac at the provider."`
	ClientSecret Secret    `json:"clientSecret,omitempty" jsonschema:"The secret of Lilac at the provider. Prefer ${NAME}, which reads an environment variable."`
	Allow        OIDCAllow `json:"allow,omitempty" jsonschema:"Who may sign in: everybody whom one of the lists names. An address counts only if the provider says that it is verified."`
	Role         string    `json:"role,omitempty" enum:"member,operator" jsonschema:"The role of a person who signs in for the first time. Default: member."`
	Operators    []string  `json:"operators,omitempty" jsonschema:"Groups whose people may sign in, and are operators. With it, each login sets the role: all others become members."`
	GroupsClaim  string    `json:"groupsClaim,omitempty" jsonschema:"The claim that names the groups of a person, for example roles or cognito:groups. Default: groups."`
	Stay         Duration  `json:"stay,omitempty" jsonschema:"How long a login lasts, from 5m to 720h. Then, the person signs in again, if the provider still lets them. Default: 720h."`
}

// OIDCAllow lists the people who may sign in.
type OIDCAllow struct {
	Emails  []string `json:"emails,omitempty" jsonschema:"Verified e-mail addresses."`
	Domains []string `json:"domains,omitempty" jsonschema:"Domains of verified e-mail addresses, without @."`
	Groups  []string `json:"groups,omitempty" jsonschema:"Groups that the provider names in the claim of accounts.oidc.groupsClaim."`
}

// On reports whether there is a provider.
func (o OIDCUser) On() bool { return o.Issuer != "" }

// checkAccounts validates the settings of accounts.
func (c checker) checkAccounts() error {
	a := c.Accounts
	found := []error{a.Member.Tools.Check("accounts.member.tools")}
	if a.URL != "" {
		if u, err := url.Parse(a.URL); err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
			found = append(found, fault.InvalidField("accounts.url", "accounts.url must be an address such as https://lilac.example.com."))
		}
	}
	return errors.Join(append(found, a.OIDC.check()...)...)
}

func (o OIDCUser) check() (found []error) {
	if !o.On() {
		if o.ClientID != "" || o.ClientSecret.Set() {
			found = append(found, fault.InvalidField("accounts.oidc.issuer", "accounts.oidc needs the issuer, the address of the provider."))
		}
		return found
	}
	u, err := url.Parse(o.Issuer)
	if err != nil || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.Scheme != "https" && (u.Scheme != "http" || !Loopback(u.Hostname())) {
		found = append(found, fault.InvalidField("accounts.oidc.issuer", "accounts.oidc.issuer must be an https address, such as https://accounts.google.com."))
	}
	if o.ClientID == "" {
		found = append(found, fault.InvalidField("accounts.oidc.clientId", "accounts.oidc.clientId is missing. The provider gives it to you when you register Lilac."))
	}
	if o.Role != "" && o.Role != grant.Member && o.Role != grant.Operator {
		found = append(found, fault.InvalidField("accounts.oidc.role", "accounts.oidc.role is %q. Use member or operator.", o.Role))
	}
	if o.Role == grant.Operator && len(o.Operators) > 0 {
		found = append(found, fault.InvalidField("accounts.oidc.role", "accounts.oidc.role is operator, so everybody is one. Leave it out, and accounts.oidc.operators decides."))
	}
	if o.Stay != 0 && (o.Stay < Duration(5*time.Minute) || o.Stay > Duration(account.LoginAge)) {
		found = append(found, fault.InvalidField("accounts.oidc.stay", "accounts.oidc.stay must be between 5m and 720h."))
	}
	if len(o.Allow.Emails)+len(o.Allow.Domains)+len(o.Allow.Groups)+len(o.Operators) == 0 {
		found = append(found, fault.InvalidField("accounts.oidc.allow", "accounts.oidc.allow is empty: list emails, domains, or groups that may sign in."))
	}
	for _, d := range o.Allow.Domains {
		if d == "" || strings.ContainsAny(d, "@*/ ") {
			found = append(found, fault.InvalidField("accounts.oidc.allow.domains", "%q is not a domain. Write it as in example.com.", d))
		}
	}
	for _, e := range o.Allow.Emails {
		if strings.Count(e, "@") != 1 {
			found = append(found, fault.InvalidField("accounts.oidc.allow.emails", "%q is not an e-mail address.", e))
		}
	}
	return found
}
