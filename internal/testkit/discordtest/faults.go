package discordtest

import (
	"net/http"
	"strings"
	"time"
)

// Fault describes how the server disturbs a request: before it is executed, after it, or
// instead of it.
type Fault struct {
	// Delay is applied before anything else.
	Delay time.Duration
	// Cut closes the connection without executing the request.
	Cut bool
	// CutAfter executes the request and then closes the connection instead of responding.
	// The client never receives the 200.
	CutAfter bool
	// Status, Code and Message reject the request with an error in Discord's JSON format.
	Status, Code int
	Message      string
	// Page is the response instead of Discord's: proxies and the network in front of Discord
	// send pages, or JSON of their own.
	Page string
	// RetryAfter responds with 429. Global makes it a limit across all routes; Shared
	// makes it a limit that other clients also consume (Rate Limits, "Exceeding A Rate
	// Limit"). Ban omits the Via header, as the network in front of Discord does.
	RetryAfter          time.Duration
	Global, Shared, Ban bool
}

func (f Fault) message() string {
	if f.Message != "" {
		return f.Message
	}
	return http.StatusText(f.Status)
}

// Common faults.
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

// FailNext applies a fault to the next request that matches route: a route name such as
// "POST /channels/{channel}/messages", or any part of the route name or of the path. An
// empty route matches every request. Faults that match the same request apply in the
// order in which they were added.
func (s Faults) FailNext(route string, f Fault) { s.Fail(route, f, 1) }

// Fail is like FailNext, but applies the fault to the next n requests.
func (s Faults) Fail(route string, f Fault, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, &plannedFault{route: route, fault: f, left: n})
}

// ClearFaults removes all pending faults and connection drops.
func (s Faults) ClearFaults() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
	s.gateway.drops = nil
}

func (s *core) takeFaultLocked(route, path string) *Fault {
	for _, f := range s.faults {
		if f.left > 0 && (strings.Contains(route, f.route) || strings.Contains(path, f.route)) {
			f.left--
			return &f.fault
		}
	}
	return nil
}

// OnCarriedOut registers a function that runs after a request is executed and before the
// server responds, in the request's goroutine. A test can kill the client in it, so that
// the client never receives the 200. Requests run concurrently, so the hook must be safe
// for concurrent use.
func (s Faults) OnCarriedOut(hook func(Carried)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hooks = append(s.hooks[:len(s.hooks):len(s.hooks)], hook)
}
