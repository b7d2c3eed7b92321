package httpapi

import (
	"strings"
	"sync/atomic"
)

// Hosts are the host names that are ours beside loopback. They may change
// while the server runs.
type Hosts struct {
	names atomic.Pointer[map[string]bool]
}

// NewHosts returns the hosts, with or without a port each.
func NewHosts(names []string) *Hosts {
	h := &Hosts{}
	h.Set(names)
	return h
}

// Set replaces the hosts.
func (h *Hosts) Set(names []string) {
	set := make(map[string]bool, len(names))
	for _, n := range names {
		set[strings.ToLower(strings.TrimSuffix(n, "."))] = true
	}
	h.names.Store(&set)
}

func (h *Hosts) has(name string) bool { return (*h.names.Load())[name] }
