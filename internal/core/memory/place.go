package memory

import (
	"path"
	"strings"
)

// Kind is the kind of a place.
type Kind string

// The kinds.
const (
	Person   Kind = "people"
	Channel  Kind = "channels"
	Everyone Kind = "everyone"
)

// Place is a folder of notes. Two conversations share notes exactly if they have the same
// place.
type Place struct {
	Kind Kind
	ID   string
}

// Common is the place that every conversation reads.
var Common = Place{Kind: Everyone}

// dir returns the directory of the place.
func (p Place) dir() string {
	if p.Kind == Everyone {
		return string(Everyone)
	}
	return path.Join(string(p.Kind), p.ID)
}

// String returns the place as people see it.
func (p Place) String() string { return p.dir() }

// Operator is the place of the conversations that need the operator's token.
var Operator = Place{Person, "operator"}

// Facts decide about the place of a conversation.
type Facts struct {
	// Client is its surface, and SessionID its id there.
	Client, SessionID string
	// Platform reports that the surface is a chat platform, Direct that the conversation has
	// one person besides the agent, and Parent is the channel of a thread.
	Platform, Direct bool
	Parent           string
	// Program reports that programs with tokens of their own talk there. They may speak for
	// many people.
	Program bool
	// Account is the person with an account whose conversation it is, if nobody else is in it;
	// Several reports that it is shared.
	Account string
	Several bool
}

// PlacesOf returns the places that a conversation reads besides [Common]. The first one is
// its own, where it writes. A thread may be private, so its notes stay in it; it reads those
// of its channel.
func PlacesOf(f Facts) []Place {
	switch {
	case f.Platform && f.Direct:
		return []Place{{Person, clean(f.Client + "-" + f.SessionID)}}
	case f.Platform && f.Parent != "":
		return []Place{{Channel, clean(f.Client + "-" + f.SessionID)}, {Channel, clean(f.Client + "-" + f.Parent)}}
	case f.Platform, f.Program, f.Several:
		return []Place{{Channel, clean(f.Client + "-" + f.SessionID)}}
	}
	if f.Account != "" {
		return []Place{{Person, clean("account-" + f.Account)}}
	}
	return []Place{Operator}
}

// clean returns an id that is one name in a directory. Ids have these characters already; the
// others are written as numbers, so that two ids never become one.
func clean(id string) string {
	var b strings.Builder
	for _, c := range []byte(id) {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_' {
			b.WriteByte(c)
			continue
		}
		const digits = "0123456789abcdef"
		b.Write([]byte{'%', digits[c>>4], digits[c&15]})
	}
	return b.String()
}
