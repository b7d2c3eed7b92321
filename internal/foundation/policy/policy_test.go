package policy

import (
	"encoding/json"
	"strings"
	"testing"

	"lilac/internal/foundation/grant"
	"lilac/internal/foundation/setting"
)

func person(id string, roles ...string) grant.Person {
	return grant.Person{ID: id, Roles: roles, RolesKnown: true}
}

func TestDecide(t *testing.T) {
	ops := []Rule{
		{Tools: []string{"surface.messages.*"}, Who: []string{"role:1"}, Where: []string{"77"}, Do: Ask},
	}
	ann, bob, unknown, operator := person("5", "1"), person("6", "2"), grant.Person{ID: "7"}, grant.Person{ID: grant.Operator}
	ada, olga := grant.Account("ada", grant.Member), grant.Account("olga", grant.Operator)
	who := func(do Verdict, who ...string) []Rule { return []Rule{{Who: who, Do: do}} }
	at := func(names ...string) Place { return Place{Names: names} }
	call := func(tool string, place Place, people ...grant.Person) Call {
		return Call{Tool: tool, Input: json.RawMessage(`{"b":1,"a":"x"}`), People: people, Place: place}
	}
	input := func(text string) map[string]json.RawMessage {
		return map[string]json.RawMessage{"a": json.RawMessage(text)}
	}
	for name, c := range map[string]struct {
		rules []Rule
		call  Call
		want  Verdict
	}{
		"a member":                             {who(Deny, "member"), call("bash", at("web"), ada), Deny},
		"an account":                           {who(Deny, "account:ada"), call("bash", at("web"), ada), Deny},
		"another account":                      {who(Deny, "account:bob"), call("bash", at("web"), ada), Allow},
		"an operator is no member":             {who(Deny, "member"), call("bash", at("web"), olga), Allow},
		"an account with the role operator":    {who(Deny, "operator"), call("bash", at("web"), olga), Deny},
		"a member is no operator":              {who(Deny, "operator"), call("bash", at("web"), ada), Allow},
		"the operator is no member":            {who(Deny, "member"), call("bash", at("web"), operator), Allow},
		"a person of a platform is no member":  {who(Deny, "member"), call("bash", at("discord"), ann), Allow},
		"an unknown person may be a member":    {who(Deny, "member"), call("bash", at("web"), grant.Person{}), Deny},
		"the role of an account is none there": {who(Deny, "role:member"), call("bash", at("web"), ada), Allow},
		"no platform makes operators":          {who(Deny, "operator"), call("bash", at("discord"), person("7", "operator")), Allow},
		"no rules":                             {nil, call("bash", at("web")), Allow},
		"the rule matches":                     {ops, call("surface.messages.send", at("discord", "77"), ann), Ask},
		"another tool":                         {ops, call("bash", at("discord", "77"), ann), Allow},
		"another role":                         {ops, call("surface.messages.send", at("discord", "77"), bob), Allow},
		"another place":                        {ops, call("surface.messages.send", at("discord", "78"), ann), Allow},
		"a thread of the channel":              {ops, call("surface.messages.send", at("discord", "99", "77"), ann), Ask},
		"roles that are not known":             {ops, call("surface.messages.send", at("discord", "77"), unknown), Ask},
		"the operator has no roles":            {ops, call("surface.messages.send", at("discord", "77"), operator), Allow},
		"no person, and a rule about one":      {ops, call("surface.messages.send", at("discord", "77")), Allow},
		"one of several people":                {ops, call("surface.messages.send", at("discord", "77"), bob, ann), Ask},
		"no person, and a rule about all":      {[]Rule{{Do: Deny}}, call("bash", at("web")), Deny},
		"the first match applies":              {[]Rule{{Tools: []string{"bash"}, Do: Allow}, {Do: Ask}}, call("bash", at("web"), ann), Allow},
		"a later deny wins":                    {[]Rule{{Tools: []string{"bash"}, Do: Allow}, {Do: Ask}, {Where: []string{"web"}, Do: Deny}}, call("bash", at("web"), ann), Deny},
		"a deny elsewhere does not":            {[]Rule{{Do: Allow}, {Where: []string{"discord"}, Do: Deny}}, call("bash", at("web"), ann), Allow},
		"a deny for one of several":            {[]Rule{{Who: []string{"user:6"}, Do: Deny}}, call("bash", at("web"), ann, bob), Deny},
		"an unknown person is not allowed": {
			[]Rule{{Who: []string{"role:1"}, Do: Allow}, {Do: Ask}}, call("bash", at("web"), unknown), Ask,
		},
		"many people are unknown ones": {[]Rule{{Who: []string{"user:6"}, Do: Deny}}, call("bash", at("web"), grant.Person{}), Deny},
		"exactly this input":           {[]Rule{{Input: input(`"x"`), Do: Allow}, {Do: Ask}}, call("bash", at("web"), ann), Allow},
		"another input":                {[]Rule{{Input: input(`"x; rm -rf /"`), Do: Allow}, {Do: Ask}}, call("bash", at("web"), ann), Ask},
		"a field that is missing":      {[]Rule{{Input: map[string]json.RawMessage{"c": json.RawMessage(`null`)}, Do: Allow}, {Do: Ask}}, call("bash", at("web"), ann), Ask},
		"the operator is named":        {[]Rule{{Who: []string{"operator"}, Do: Allow}, {Do: Deny, Who: []string{"user:5"}}}, call("bash", at("web"), operator), Allow},
		"places in any case":           {[]Rule{{Where: []string{"#Ops"}, Do: Deny}}, call("bash", at("#ops"), ann), Deny},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Decide(c.rules, c.call); got.Verdict != c.want {
				t.Errorf("%+v, want %s", got, c.want)
			}
		})
	}
}

func TestThosePeopleMayApprove(t *testing.T) {
	rule := Rule{Who: []string{"role:1"}, Do: Ask}
	d := Decide([]Rule{rule}, Call{Tool: "bash", People: []grant.Person{person("5", "1")}})
	for _, c := range []struct {
		who  grant.Person
		want bool
	}{
		{person("5", "1"), true},
		{person("6", "2"), false},
		{grant.Person{ID: "5"}, false}, // its roles are not known
		{grant.Person{}, false},
		{grant.Person{ID: grant.Operator}, true},
	} {
		if got := MayApprove(d.Approvers, c.who); got != c.want {
			t.Errorf("%+v may approve: %v", c.who, got)
		}
	}
	rule.Approvers = []string{"user:9"}
	if d := Decide([]Rule{rule}, Call{People: []grant.Person{person("5", "1")}}); MayApprove(d.Approvers, person("5", "1")) || !MayApprove(d.Approvers, person("9")) {
		t.Errorf("with approve: %+v", d)
	}
}

func TestAHashBindsTheCanonicalInput(t *testing.T) {
	same := Hash(json.RawMessage(`{"a":1.50,"b":"<x>"}`))
	if got := Hash(json.RawMessage(" {\"b\": \"<x>\",\n\"a\":1.50}")); got != same {
		t.Error("spaces or the order of keys change the hash")
	}
	for _, other := range []string{`{"a":1.5,"b":"<x>"}`, `{"a":1.50,"b":"<y>"}`, `{"a":1.50}`, `{"a":1.50,"b":"<x>","c":null}`, `[]`, ``, `{"a":1.50,"b":"<x>"} {}`, `{"a":1.50,"b":"<x>"}}`} {
		if Hash(json.RawMessage(other)) == same {
			t.Errorf("%s has the same hash", other)
		}
	}
	// A decoder uses the last of equal keys, so people see that one.
	if got := string(Canonical(json.RawMessage(`{"a":"ls","a":"rm"}`))); got != `{"a":"rm"}` {
		t.Errorf("canonical form: %s", got)
	}
}

func TestARulesChangeIsAnotherRule(t *testing.T) {
	a := Decide([]Rule{{Tools: []string{"bash"}, Do: Ask}}, Call{Tool: "bash"})
	b := Decide([]Rule{{Tools: []string{"read"}, Do: Ask}, {Tools: []string{"bash"}, Do: Ask}}, Call{Tool: "bash"})
	c := Decide([]Rule{{Tools: []string{"bash"}, Do: Ask, Approvers: []string{"user:1"}}}, Call{Tool: "bash"})
	if a.Rule != b.Rule || a.Rule == c.Rule || a.Rule == "" {
		t.Errorf("%q, %q, %q", a.Rule, b.Rule, c.Rule)
	}
}

func TestCompile(t *testing.T) {
	names := Names{Users: map[string]string{"ada": "5"}, Roles: map[string]string{"ops": "1"}, Places: map[string]string{"ops": "77"}}
	rules, err := Compile("policy", []RuleConfig{
		{Tool: setting.Texts{"surface.messages.*"}, Who: setting.Texts{"role:ops", "user:ada", "user:42", "operator"}, Where: setting.Texts{"#ops", "web"}, Do: "ask"},
		{Input: map[string]any{"n": 3}, Do: "allow"},
	}, names)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(rules[0].Who, " ") + " " + strings.Join(rules[0].Where, " "); got != "role:1 user:5 user:42 operator 77 web" {
		t.Error(got)
	}
	if string(rules[1].Input["n"]) != "3" {
		t.Errorf("input: %s", rules[1].Input)
	}
	for name, bad := range map[string]RuleConfig{
		"policy[0].do":      {Do: "maybe"},
		"policy[0].tool[0]": {Tool: setting.Texts{"Bash"}, Do: "ask"},
		"policy[0].who[0]":  {Who: setting.Texts{"role:oops"}, Do: "ask"},
		"policy[0].who[1]":  {Who: setting.Texts{"user:1", "ada"}, Do: "ask"},
		"policy[0].approve": {Approve: setting.Texts{"user:1"}, Do: "allow"},
		"policy[0].input":   {Input: map[string]any{"command": "rm"}, Do: "deny"},
	} {
		if _, err := Compile("policy", []RuleConfig{bad}, names); err == nil || !strings.Contains(err.Error(), strings.SplitN(name, "[1]", 2)[0]) && !strings.Contains(err.Error(), "names nobody") && !strings.Contains(err.Error(), "neither an ID") && !strings.Contains(err.Error(), "not a pattern") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhoMayApprove(t *testing.T) {
	ada, olga := grant.Account("ada", grant.Member), grant.Account("olga", grant.Operator)
	for name, c := range map[string]struct {
		approvers []string
		by        grant.Person
		want      bool
	}{
		"the operator":              {nil, grant.Person{ID: grant.Operator}, true},
		"an operator's account":     {nil, olga, true},
		"a member":                  {nil, ada, false},
		"a listed member":           {[]string{"account:ada"}, ada, true},
		"all members":               {[]string{"member"}, ada, true},
		"another one":               {[]string{"account:bob"}, ada, false},
		"an unknown person":         {[]string{"member"}, grant.Person{}, false},
		"a person who claims to be": {nil, grant.Person{ID: "7", Roles: []string{"operator"}, RolesKnown: true}, false},
	} {
		if got := MayApprove(c.approvers, c.by); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
