package httpapi

import (
	"strings"
	"sync/atomic"
)

// Hosts are the host names that the server accepts in addition to loopback. It is
// safe for concurrent use.
type Hosts struct {
	names atomic.Pointer[map[string]bool]
}

// NewHosts returns a set of host names, each with or without a port.
func NewHosts(names []string) *Hosts {
	h := &Hosts{}
	h.Set(names)
	return h
}

// Set replaces the host names.
func (h *Hosts) Set(names []string) {
	set := make(map[string]bool, len(names))
	for _, n := range names {
		set[strings.ToLower(strings.TrimSuffix(n, "."))] = true
	}
	h.names.Store(&set)
}

func (h *Hosts) has(name string) bool { return (*h.names.Load())[name] }
