package account

// Verdict is the answer to a call.
type Verdict string

// The verdicts. [NotFound] hides that a conversation exists.
const (
	Allow     Verdict = "allow"
	Forbidden Verdict = "forbidden"
	NotFound  Verdict = "not found"
)

// Operation is a kind of call, by the people who may make it.
type Operation int

// The operations. The zero value is for operators only, so that a new one is safe.
const (
	// Operate manages Lilac, or sees what belongs to no conversation.
	Operate Operation = iota
	// Use is for every person who is signed in; the answer has only what the person may see.
	Use
	// See reads one conversation.
	See
	// TakePart writes in one conversation.
	TakePart
	// Manage deletes or shares one conversation.
	Manage
)

// needs has the smallest right for each operation in a conversation.
var needs = map[Operation]Right{See: Read, TakePart: Part, Manage: Owner}

// Decide decides whether a person of a role may do an operation. has is the person's right in
// the conversation that the operation is about; it does not matter for the others.
func Decide(role Role, op Operation, has Right) Verdict {
	if role == Operator {
		return Allow
	}
	if role != Member {
		return NotFound
	}
	if op == Use {
		return Allow
	}
	need, about := needs[op]
	switch {
	case !about:
		return Forbidden
	case has.level() <= None.level():
		return NotFound
	case has.level() < need.level():
		return Forbidden
	}
	return Allow
}

// Larger returns the right that includes the other one.
func Larger(a, b Right) Right {
	if b.level() > a.level() {
		return b
	}
	return a
}

// InConversation reports whether the operation is about one conversation.
func (op Operation) InConversation() bool {
	_, about := needs[op]
	return about
}
