package policy

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"lilac/internal/foundation/grant"
)

// Verdict is the decision of a rule about a call.
type Verdict string

// The verdicts.
const (
	Allow Verdict = "allow"
	Ask   Verdict = "ask"
	Deny  Verdict = "deny"
)

// strictness orders the verdicts.
var strictness = map[Verdict]int{Allow: 0, Ask: 1, Deny: 2}

// The forms of people in rules; others are grant.Operator, grant.Member, and grant.AccountPrefix.
const (
	userPrefix = "user:"
	rolePrefix = "role:"
)

// Rule is a rule of the policy. An empty list matches everything.
type Rule struct {
	// Tools are patterns as in package grant.
	Tools []string `json:"tools"`
	// Who lists people: "user:ID", "role:ID", "account:ID", "member", or "operator".
	Who []string `json:"who,omitempty"`
	// Where lists places by one of their names; see [Place].
	Where []string `json:"where,omitempty"`
	// Input holds fields that the input must have with exactly these values.
	Input map[string]json.RawMessage `json:"input,omitempty"`
	Do    Verdict                    `json:"do"`
	// Approvers lists the people who may answer besides the operator; nil means Who.
	Approvers []string `json:"approvers,omitempty"`
}

// Place is where a request works.
type Place struct {
	// Names are all names of the place: its client ("discord", "web"), the ids of the
	// channel and of the channel to which a thread belongs, and configured names ("#ops").
	Names []string
}

// Call is a call that is about to run.
type Call struct {
	// Tool is the name of the tool or callable.
	Tool string
	// Input is its input, a JSON object.
	Input json.RawMessage
	// People are those for whom the request works; none means that no person asked.
	People []grant.Person
	Place  Place
}

// Decision is the decision about a call.
type Decision struct {
	Verdict Verdict
	// Approvers are the people who may answer besides the operator, for Ask.
	Approvers []string
	// Rule identifies the rule that decided by a hash of its content, or is "". A decision
	// that somebody made about a rule does not hold for another one.
	Rule string
	// Position is the position of that rule in the policy, starting at 1.
	Position int
}

// Decide decides whether a call may run.
func Decide(rules []Rule, c Call) Decision {
	if len(rules) == 0 {
		return Decision{Verdict: Allow}
	}
	people := make([]*grant.Person, len(c.People))
	for i := range c.People {
		people[i] = &c.People[i]
	}
	if len(people) == 0 {
		people = []*grant.Person{nil}
	}
	out := decideFor(rules, c, people[0])
	for _, p := range people[1:] {
		if d := decideFor(rules, c, p); strictness[d.Verdict] > strictness[out.Verdict] {
			out = d
		}
	}
	return out
}

// decideFor decides for one person; nil means that no person asked.
func decideFor(rules []Rule, c Call, p *grant.Person) Decision {
	first := Decision{Verdict: Allow}
	found := false
	for i, r := range rules {
		if !r.matches(c, p) {
			continue
		}
		if d := r.decision(i + 1); r.Do == Deny {
			return d
		} else if !found {
			first, found = d, true
		}
	}
	return first
}

func (r Rule) decision(position int) Decision {
	d := Decision{Verdict: r.Do, Rule: r.hash(), Position: position}
	if r.Do == Ask {
		if d.Approvers = r.Approvers; d.Approvers == nil {
			d.Approvers = r.Who
		}
	}
	return d
}

func (r Rule) hash() string {
	raw, _ := json.Marshal(r) // strings and valid JSON always marshal
	return Hash(raw)
}

func (r Rule) matches(c Call, p *grant.Person) bool {
	return (len(r.Tools) == 0 || grant.MatchAny(r.Tools, c.Tool)) &&
		(len(r.Where) == 0 || slices.ContainsFunc(r.Where, c.Place.is)) &&
		(len(r.Who) == 0 || p != nil && r.includes(*p)) &&
		hasFields(c.Input, r.Input)
}

// includes reports whether the rule is about a person. One who may be meant is, unless the
// rule allows.
func (r Rule) includes(p grant.Person) bool {
	certain, possible := Lists(r.Who, p)
	return certain || possible && r.Do != Allow
}

// Lists reports whether a list of people certainly has a person, and whether it may have
// one whose id or roles are unknown.
func Lists(who []string, p grant.Person) (certain, possible bool) {
	for _, w := range who {
		if id, isUser := strings.CutPrefix(w, userPrefix); isUser {
			certain = certain || p.ID != "" && p.ID == id
			possible = possible || p.ID == ""
			continue
		}
		if strings.HasPrefix(w, grant.AccountPrefix) || w == grant.Member {
			certain = certain || p.ID == w || w == grant.Member && p.IsMember()
			possible = possible || p.ID == ""
			continue
		}
		if role, isRole := strings.CutPrefix(w, rolePrefix); isRole {
			certain = certain || p.RolesKnown && !strings.HasPrefix(p.ID, grant.AccountPrefix) && slices.Contains(p.Roles, role)
			possible = possible || !p.RolesKnown && p.ID != grant.Operator
			continue
		}
		certain = certain || w == grant.Operator && p.IsOperator()
	}
	return certain, possible
}

// MayApprove reports whether a person may answer a question about a call.
func MayApprove(approvers []string, p grant.Person) bool {
	certain, _ := Lists(approvers, p)
	return certain || p.IsOperator()
}

func (p Place) is(name string) bool {
	return slices.ContainsFunc(p.Names, func(n string) bool { return strings.EqualFold(n, name) })
}

// hasFields reports whether an object has fields with exactly these values.
func hasFields(input json.RawMessage, fields map[string]json.RawMessage) bool {
	if len(fields) == 0 {
		return true
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(input, &object) != nil {
		return false
	}
	for name, want := range fields {
		got, ok := object[name]
		if !ok || !bytes.Equal(Canonical(got), Canonical(want)) {
			return false
		}
	}
	return true
}

// Canonical returns JSON with sorted keys and without spaces; of equal keys, the last one,
// which is also the one that a decoder uses. What is not JSON becomes a JSON string.
func Canonical(input json.RawMessage) json.RawMessage {
	dec := json.NewDecoder(bytes.NewReader(input))
	dec.UseNumber()
	var v any
	err := dec.Decode(&v)
	if _, rest := dec.Token(); err != nil || rest != io.EOF {
		v = string(input)
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return json.RawMessage(fmt.Sprintf("%q", input))
	}
	return bytes.TrimSpace(out.Bytes())
}

// Hash returns the SHA-256 of the canonical form of an input, in hexadecimal digits.
func Hash(input json.RawMessage) string {
	sum := sha256.Sum256(Canonical(input))
	return hex.EncodeToString(sum[:])
}
