package grant

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/lazyregexp"
)

const (
	// maxParts bounds the restrictions of a grant. A chain of events that cause each other
	// is shorter than that, and equal restrictions count once.
	maxParts = 32
	// maxPeople bounds the people of a grant; more than that are one unknown person.
	maxPeople = 64
)

// Tools is one restriction. Its zero value restricts nothing.
type Tools struct {
	// From names the part of the configuration that it comes from, for messages: "the
	// rule ci".
	From string `json:"from,omitempty"`
	// Allow lists the patterns of the only names that may be used; empty means all names.
	Allow []string `json:"allow,omitempty"`
	// Deny lists the patterns of names that must not be used, even if Allow has them.
	Deny []string `json:"deny,omitempty"`
	// Person is a person who asked, for the policy; a part with a person restricts nothing
	// by itself.
	Person *Person `json:"person,omitempty"`
}

// Operator is the id of the person who uses the page, a terminal, or the API with the
// operator's token, and the role of people with accounts who may do the same.
const Operator = "operator"

// Member is the role of the other people with accounts.
const Member = "member"

// AccountPrefix begins the ids of people with accounts.
const AccountPrefix = "account:"

// Person is a person for whom a request works. The zero value is an unknown person.
type Person struct {
	// ID is [Operator], the platform's id of the user, or [AccountPrefix] and the id of an account.
	ID string `json:"id,omitempty"`
	// Roles are the platform's ids of the person's roles, or the role of an account, if RolesKnown.
	Roles      []string `json:"roles,omitempty"`
	RolesKnown bool     `json:"rolesKnown,omitempty"`
}

// Account returns the person with an account.
func Account(id, role string) Person {
	return Person{ID: AccountPrefix + id, Roles: []string{role}, RolesKnown: true}
}

// IsOperator reports whether the person may do what the operator may.
func (p Person) IsOperator() bool { return p.ID == Operator || p.hasAccountOf(Operator) }

// IsMember reports whether the person has the account of a member.
func (p Person) IsMember() bool { return p.hasAccountOf(Member) }

func (p Person) hasAccountOf(role string) bool {
	return strings.HasPrefix(p.ID, AccountPrefix) && slices.Equal(p.Roles, []string{role})
}

// By returns a grant that restricts nothing and says who asked.
func By(p Person) Grant { return Grant{{Person: &p}} }

// IsZero reports whether t says nothing.
func (t Tools) IsZero() bool { return !t.restricts() && t.Person == nil }

func (t Tools) restricts() bool { return len(t.Allow)+len(t.Deny) > 0 }

// Allows reports whether t allows a tool or callable.
func (t Tools) Allows(name string) bool {
	return !MatchAny(t.Deny, name) && (len(t.Allow) == 0 || MatchAny(t.Allow, name))
}

func (t Tools) equal(o Tools) bool {
	if (t.Person == nil) != (o.Person == nil) {
		return false
	}
	if p := t.Person; p != nil && (p.ID != o.Person.ID || p.RolesKnown != o.Person.RolesKnown || !slices.Equal(p.Roles, o.Person.Roles)) {
		return false
	}
	return t.From == o.From && slices.Equal(t.Allow, o.Allow) && slices.Equal(t.Deny, o.Deny)
}

// Grant is what a request may use: the names that each of its restrictions allows. The
// zero value allows everything.
type Grant []Tools

// Of returns a grant with the restrictions that restrict something.
func Of(parts ...Tools) Grant { return Grant(nil).And(parts) }

// And returns a grant that allows what both allow, for the people of both. It modifies
// neither.
func (g Grant) And(more Grant) Grant {
	out := slices.Clone(g)
	for _, t := range more {
		if !t.restricts() && t.Person != nil && len(out.People()) >= maxPeople {
			t.Person = &Person{}
		}
		if t.IsZero() || slices.ContainsFunc(out, t.equal) {
			continue
		}
		if t.restricts() && out.restrictions() >= maxParts {
			return Grant{{From: "too many restrictions", Deny: []string{"*"}}}
		}
		out = append(out, t)
	}
	return out
}

// People returns the people for whom a request with the grant works. None means that no
// person asked for it.
func (g Grant) People() (people []Person) {
	for _, t := range g {
		if t.Person != nil {
			people = append(people, *t.Person)
		}
	}
	return people
}

// Restricts reports whether the grant restricts anything.
func (g Grant) Restricts() bool { return g.restrictions() > 0 }

func (g Grant) restrictions() (n int) {
	for _, t := range g {
		if t.restricts() {
			n++
		}
	}
	return n
}

// Allows reports whether the grant allows a tool or callable.
func (g Grant) Allows(name string) bool { return g.refusing(name) == nil }

// Refusal says why a tool or callable must not be used, or returns "".
func (g Grant) Refusal(name string) string {
	t := g.refusing(name)
	if t == nil {
		return ""
	}
	from := cmp.Or(t.From, "the configuration")
	if len(t.Allow) > 0 && !MatchAny(t.Deny, name) {
		return fmt.Sprintf("%s does not allow %s here. It allows only: %s.", capital(from), name, strings.Join(t.Allow, ", "))
	}
	return fmt.Sprintf("%s does not allow %s here.", capital(from), name)
}

// Filter returns the names that the grant allows.
func (g Grant) Filter(names []string) (allowed []string) {
	for _, name := range names {
		if g.Allows(name) {
			allowed = append(allowed, name)
		}
	}
	return allowed
}

// refusing returns the first restriction that does not allow a name, or nil.
func (g Grant) refusing(name string) *Tools {
	for i := range g {
		if !g[i].Allows(name) {
			return &g[i]
		}
	}
	return nil
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// MatchAny reports whether one of the patterns matches a name.
func MatchAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return Match(p, name) })
}

// Match reports whether a pattern matches a name. A tool of an MCP server that is offered to
// the model itself has the name of its callable.
func Match(pattern, name string) bool {
	name = callableOf(name)
	if pattern == "*" || pattern == name {
		return true
	}
	return strings.HasPrefix(name, strings.TrimSuffix(pattern, ".*")+".")
}

// pinnedPrefix begins the names of tools of MCP servers that are offered to the model itself.
const pinnedPrefix = "mcp__"

// PinnedName returns the name under which the model sees the callable mcp.server.tool. The
// APIs of models allow no dots in names.
func PinnedName(server, tool string) string { return pinnedPrefix + server + "__" + tool }

// callableOf returns the callable that a tool stands for, or the name itself.
func callableOf(name string) string {
	rest, pinned := strings.CutPrefix(name, pinnedPrefix)
	server, tool, found := strings.Cut(rest, "__")
	if !pinned || !found {
		return name
	}
	return "mcp." + server + "." + tool
}

// patternForm matches patterns. Only MCP servers have tools with capital letters.
var patternForm = lazyregexp.New(`^(\*|[a-z0-9_-]+(\.[a-z0-9_-]+)*(\.\*)?|mcp(\.[A-Za-z0-9_-]+)+(\.\*)?)$`)

// CheckPattern returns an error if p is not a pattern; field is the key of the setting.
func CheckPattern(field, p string) error {
	if !patternForm().MatchString(p) {
		return fault.InvalidField(field, "%q is not a pattern for tools. Use the name of a tool or callable (bash, surface.messages.send), a prefix with .* (surface.messages.*), or *.", p)
	}
	return nil
}

// Reading lists the tools and callables that only read. Requests that strangers can
// trigger may use only these unless the configuration allows more.
var Reading = []string{
	"read", "glob", "grep", "get_event_info",
	"surface.sessions.list", "surface.messages.list", "surface.messages.read", "surface.messages.search", "surface.reactions.list",
	"task.list", "task.output", "workflow.list", "workflow.get",
}
