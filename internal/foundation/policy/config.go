package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/grant"
	"lilac/internal/foundation/lazyregexp"
	"lilac/internal/foundation/setting"
)

// RuleConfig is a rule in the setting "policy".
type RuleConfig struct {
	Tool    setting.Texts  `json:"tool,omitempty" jsonschema:"Tools and callables, as in tools.allow: bash, surface.messages.*, or *. A pattern or a list of patterns. Default: all."`
	Who     setting.Texts  `json:"who,omitempty" jsonschema:"For whom the request works: operator (the operator's token on the page, in a terminal, or in the API, and people with the role operator), member (people with that role), account:ID (one person of lilac accounts list), user:ID or role:ID with an ID of Discord, or with a name under entity.users or entity.roles. Default: everybody, and requests without a person, such as those of timers and webhooks."`
	Where   setting.Texts  `json:"where,omitempty" jsonschema:"Where the request works: discord, web, terminal, acp (editors), the ID of a channel (its threads are included), or the name of a channel under entity.sessions, with or without #. Default: everywhere."`
	Input   map[string]any `json:"input,omitempty" jsonschema:"Fields that the input of the call must have with exactly these values. Only for do: allow, because a model can write the same in another way."`
	Do      string         `json:"do,omitempty" enum:"allow,ask,deny" jsonschema:"allow, ask (the call waits until a permitted person answers), or deny. A deny that matches always wins; otherwise the first rule that matches applies; without one, the call is allowed."`
	Approve setting.Texts  `json:"approve,omitempty" jsonschema:"Who may answer, besides the operator: user, role, account, and member as in who. Default: the people in who."`
}

// Names resolve names in the configuration to ids.
type Names struct {
	// Users and Roles hold ids by name, Places the ids of channels.
	Users, Roles, Places map[string]string
}

// clients are the surfaces that a rule may name as a place.
var clients = []string{"discord", "web", "terminal", "acp"}

// Compile returns the rules of a configuration. The error has all its mistakes; field is the
// key of the setting.
func Compile(field string, configs []RuleConfig, names Names) ([]Rule, error) {
	var found []error
	var rules []Rule
	for i, c := range configs {
		at := fmt.Sprintf("%s[%d]", field, i)
		rule, err := c.compile(at, names)
		found = append(found, err)
		rules = append(rules, rule)
	}
	return rules, errors.Join(found...)
}

func (c RuleConfig) compile(at string, names Names) (r Rule, err error) {
	var found []error
	r.Do, r.Tools = Verdict(c.Do), c.Tool
	if _, known := strictness[r.Do]; !known {
		found = append(found, fault.InvalidField(at+".do", "%s.do is %q. Use allow, ask, or deny.", at, c.Do))
	}
	for i, p := range c.Tool {
		found = append(found, grant.CheckPattern(fmt.Sprintf("%s.tool[%d]", at, i), p))
	}
	if r.Who, err = people(at+".who", c.Who, names); err != nil {
		found = append(found, err)
	}
	if r.Approvers, err = people(at+".approve", c.Approve, names); err != nil {
		found = append(found, err)
	}
	if len(c.Approve) > 0 && r.Do != Ask {
		found = append(found, fault.InvalidField(at+".approve", "%s.approve is only for do: ask.", at))
	}
	for _, where := range c.Where {
		r.Where = append(r.Where, place(where, names))
	}
	if len(c.Input) > 0 && r.Do != Allow {
		found = append(found, fault.InvalidField(at+".input", "%s.input is only for do: allow, because a model can write the same call in another way. Allow what is harmless, and ask for the rest.", at))
	}
	for name, value := range c.Input {
		raw, err := json.Marshal(value)
		if err != nil {
			found = append(found, fault.InvalidField(at+".input."+name, "The value of %s.input.%s cannot be compared.", at, name))
		}
		if r.Input == nil {
			r.Input = map[string]json.RawMessage{}
		}
		r.Input[name] = Canonical(raw)
	}
	return r, errors.Join(found...)
}

// accountForm matches the ids of accounts.
var accountForm = lazyregexp.New(`^[a-z0-9][a-z0-9-]{0,39}$`)

// people resolves a list of people.
func people(field string, list []string, names Names) (out []string, err error) {
	var found []error
	for i, who := range list {
		at := fmt.Sprintf("%s[%d]", field, i)
		kind, name, _ := strings.Cut(who, ":")
		known := map[string]map[string]string{"user": names.Users, "role": names.Roles}[kind]
		switch {
		case who == grant.Operator || who == grant.Member || kind+":" == grant.AccountPrefix && accountForm().MatchString(name):
			out = append(out, who)
		case kind != "user" && kind != "role" || name == "":
			found = append(found, fault.InvalidField(at, "%q names nobody. Use operator, member, account:ID, user:ID or role:ID.", who))
		case known[name] != "":
			out = append(out, kind+":"+known[name])
		case strings.Trim(name, "0123456789") == "":
			out = append(out, who)
		default:
			found = append(found, fault.InvalidField(at, "%q is neither an ID nor a name under entity.%ss.%s", who, kind,
				fault.DidYouMean(name, slices.Sorted(maps.Keys(known)))))
		}
	}
	return out, errors.Join(found...)
}

// place resolves the name of a channel to its id. Other texts stay: they may be the id of a
// conversation, or a title.
func place(where string, names Names) string {
	if slices.Contains(clients, where) {
		return where
	}
	if id := names.Places[strings.TrimPrefix(where, "#")]; id != "" {
		return id
	}
	return where
}
