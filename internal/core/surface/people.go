package surface

import (
	"slices"
	"strings"
)

// People selects people by "user:ID" and "role:ID".
type People struct{ Allow, Deny []string }

// Includes reports whether a person is selected: Deny does not list them or one of their
// roles, and Allow does, or is empty. A person whose roles are not known has none that Allow lists, and may have one
// that Deny lists.
func (p People) Includes(u User) bool {
	is := func(who string) bool {
		return u.ID != "" && who == "user:"+u.ID || slices.ContainsFunc(u.Roles, func(role string) bool { return who == "role:"+role })
	}
	ofRole := func(who string) bool { return strings.HasPrefix(who, "role:") }
	if u.Roles == nil && slices.ContainsFunc(p.Deny, ofRole) {
		return false
	}
	return !slices.ContainsFunc(p.Deny, is) && (len(p.Allow) == 0 || slices.ContainsFunc(p.Allow, is))
}
