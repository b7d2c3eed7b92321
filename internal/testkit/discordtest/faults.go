package discordtest

import (
	"net/http"
	"strings"
	"time"
)

// Fault is what happens to a request instead of, before or after being carried out.
type Fault struct {
	// Delay comes first.
	Delay time.Duration
	// Cut closes the connection and carries nothing out.
	Cut bool
	// CutAfter carries the request out and closes the connection instead of
	// answering: a 200 that never arrives.
	CutAfter bool
	// Status, Code and Message refuse it, as Discord's JSON.
	Status, Code int
	Message      string
	// RetryAfter answers with a 429, with Global for all routes, with Shared for
	// a limit that others use up, too (Rate Limits, "Exceeding A Rate Limit"). Ban
	// leaves the Via header out, as the network in front of Discord does.
	RetryAfter          time.Duration
	Global, Shared, Ban bool
}

func (f Fault) message() string {
	if f.Message != "" {
		return f.Message
	}
	return http.StatusText(f.Status)
}

// Faults that are common.
var (
	ServerError        = Fault{Status: http.StatusInternalServerError}
	BadGateway         = Fault{Status: http.StatusBadGateway}
	MissingAccess      = Fault{Status: http.StatusForbidden, Code: 50001, Message: "Missing Access"}
	MissingPermissions = Fault{Status: http.StatusForbidden, Code: 50013, Message: "Missing Permissions"}
	UnknownChannel     = Fault{Status: http.StatusNotFound, Code: 10003, Message: "Unknown Channel"}
	UnknownMessage     = Fault{Status: http.StatusNotFound, Code: 10008, Message: "Unknown Message"}
	OldEdits           = Fault{Status: http.StatusTooManyRequests, Code: 30046, Message: "Maximum number of edits to messages older than 1 hour reached. Try again later"}
	CutBefore          = Fault{Cut: true}
	CutAfter           = Fault{CutAfter: true}
)

type plannedFault struct {
	route string
	fault Fault
	left  int
}

// FailNext does something to the next request of a route: "POST
// /channels/{channel}/messages", or any part of the route or of the path, or
// "" for every request. Faults of one route apply in the order given.
func (s *Server) FailNext(route string, f Fault) { s.Fail(route, f, 1) }

// Fail is FailNext for n requests.
func (s *Server) Fail(route string, f Fault, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, &plannedFault{route: route, fault: f, left: n})
}

// ClearFaults takes back what was planned, and drops that were.
func (s *Server) ClearFaults() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
	s.gateway.drops = nil
}

func (s *Server) takeFaultLocked(route, path string) *Fault {
	for _, f := range s.faults {
		if f.left > 0 && (strings.Contains(route, f.route) || strings.Contains(path, f.route)) {
			f.left--
			return &f.fault
		}
	}
	return nil
}

// OnCarriedOut calls a function after a request was carried out and before it
// is answered, in the goroutine of the request; a test that kills the client
// in it has the platform's 200 never arrive. It must not call it twice at once
// by itself: requests run side by side.
func (s *Server) OnCarriedOut(hook func(Carried)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hooks = append(s.hooks[:len(s.hooks):len(s.hooks)], hook)
}
