package account

import "testing"

func TestWhoMayDoWhatInAConversation(t *testing.T) {
	const stranger, broken = Role(""), Right("broken")
	for _, c := range []struct {
		role Role
		has  Right
		want map[Operation]Verdict
	}{
		{Operator, None, map[Operation]Verdict{Operate: Allow, Use: Allow, See: Allow, TakePart: Allow, Manage: Allow}},
		{Operator, Read, map[Operation]Verdict{Operate: Allow, Use: Allow, See: Allow, TakePart: Allow, Manage: Allow}},
		{Member, None, map[Operation]Verdict{Operate: Forbidden, Use: Allow, See: NotFound, TakePart: NotFound, Manage: NotFound}},
		{Member, broken, map[Operation]Verdict{Operate: Forbidden, Use: Allow, See: NotFound, TakePart: NotFound, Manage: NotFound}},
		{Member, Read, map[Operation]Verdict{Operate: Forbidden, Use: Allow, See: Allow, TakePart: Forbidden, Manage: Forbidden}},
		{Member, Part, map[Operation]Verdict{Operate: Forbidden, Use: Allow, See: Allow, TakePart: Allow, Manage: Forbidden}},
		{Member, Owner, map[Operation]Verdict{Operate: Forbidden, Use: Allow, See: Allow, TakePart: Allow, Manage: Allow}},
		{stranger, Owner, map[Operation]Verdict{Operate: NotFound, Use: NotFound, See: NotFound, TakePart: NotFound, Manage: NotFound}},
	} {
		for op, want := range c.want {
			if got := Decide(c.role, op, c.has); got != want {
				t.Errorf("Decide(%q, %d, %q) = %q, want %q", c.role, op, c.has, got, want)
			}
		}
	}
	if got := Decide(Member, Operation(99), Owner); got != Forbidden {
		t.Errorf("an unknown operation of a member is %q", got)
	}
}

func TestIdsAreWordsThatNobodyHas(t *testing.T) {
	taken := map[string]bool{"ada": true, "ada-2": true}
	for name, want := range map[string]string{
		"Ada": "ada-3", "Ada Lovelace": "ada-lovelace", " ** ": "person", "operator": "person", "member": "person",
		"Zoë": "zo", "李雷": "person", "A.B-C": "a-b-c", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa": "aaaaaaaaaaaaaaaaaaaaaaaa",
	} {
		if got := idFor(name, func(id string) bool { return taken[id] }); got != want {
			t.Errorf("idFor(%q) = %q, want %q", name, got, want)
		}
	}
}
