package mcpclient

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"lilac/internal/foundation/order"
)

// Kind is the subject of an announcement.
type Kind string

// The kinds. Package event has the types of events for them.
const (
	ToolsChanged     Kind = "tools_changed"
	PromptsChanged   Kind = "prompts_changed"
	ResourcesChanged Kind = "resources_changed"
	ResourceUpdated  Kind = "resource_updated"
)

// Notice is an announcement of a server, and the payload of the event about it. Repeated ones
// are combined.
type Notice struct {
	Kind   Kind   `json:"-"`
	Server string `json:"server"`
	// URI is the resource of [ResourceUpdated].
	URI string `json:"uri,omitempty"`
	// Added and Removed are the names of tools, for [ToolsChanged]. A tool whose text or
	// schema has changed is in both.
	Added   []string `json:"added,omitempty"`
	Removed []string `json:"removed,omitempty"`
}

const (
	// maxUpdated bounds the resources with an update that was not handled yet, and maxURI
	// the length of the address of one, in bytes.
	maxUpdated = 256
	maxURI     = 2048
)

// notices collects announcements until they are handled.
type notices struct {
	wake chan struct{}

	mu      sync.Mutex
	waiting map[announcement]bool
}

// announcement is what makes an announcement the same as another.
type announcement struct {
	kind Kind
	uri  string
}

func (n *notices) add(kind Kind, uri string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(uri) > maxURI || len(n.waiting) >= maxUpdated {
		return
	}
	if n.waiting == nil {
		n.waiting = map[announcement]bool{}
	}
	n.waiting[announcement{kind, uri}] = true
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

func (n *notices) take() (out []Notice) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for key := range n.waiting {
		out = append(out, Notice{Kind: key.kind, URI: key.uri})
	}
	n.waiting = nil
	order.By(out, func(a, b Notice) int {
		if a.Kind == b.Kind {
			return cmp.Compare(a.URI, b.URI)
		}
		return cmp.Compare(a.Kind, b.Kind)
	})
	return out
}

// difference compares two lists of tools.
func difference(before, after []Tool) (added, removed []string) {
	texts := func(tools []Tool) map[string]string {
		out := make(map[string]string, len(tools))
		for _, t := range tools {
			out[t.Name] = t.Title + "\x00" + t.Description + "\x00" + string(t.Schema)
		}
		return out
	}
	old, now := texts(before), texts(after)
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if text, there := old[name]; !there || text != now[name] {
			added = append(added, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(old)) {
		if text, there := now[name]; !there || text != old[name] {
			removed = append(removed, name)
		}
	}
	return added, removed
}
