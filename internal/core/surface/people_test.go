package surface

import (
	"strings"
	"testing"
)

func TestWhomASelectionIncludes(t *testing.T) {
	ann := User{ID: "1", Roles: []string{"10", "11"}}
	bob := User{ID: "2", Roles: []string{}}
	unknown := User{ID: "2"}
	for name, c := range map[string]struct {
		people   People
		ann, bob bool
	}{
		"everybody":               {People{}, true, true},
		"a person":                {People{Allow: []string{"user:2"}}, false, true},
		"a role":                  {People{Allow: []string{"role:11"}}, true, false},
		"all but a person":        {People{Deny: []string{"user:2"}}, true, false},
		"all but a role":          {People{Deny: []string{"role:10"}}, false, true},
		"deny wins":               {People{Allow: []string{"user:1", "user:2"}, Deny: []string{"role:10"}}, false, true},
		"a role is not a person":  {People{Allow: []string{"user:10", "role:2"}}, false, false},
		"nobody without an id is": {People{Allow: []string{"user:"}}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.people.Includes(ann); got != c.ann {
				t.Errorf("Ann: %t", got)
			}
			if got := c.people.Includes(bob); got != c.bob {
				t.Errorf("Bob: %t", got)
			}
			if strings.HasPrefix(strings.Join(c.people.Deny, ""), "role:") && c.people.Includes(unknown) {
				t.Error("somebody with unknown roles is not denied")
			}
			if len(c.people.Allow) > 0 && c.people.Includes(User{}) {
				t.Error("somebody without an id counts as listed")
			}
		})
	}
}
