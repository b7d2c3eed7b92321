package health

import (
	"fmt"
	"sync"
	"time"

	"lilac/internal/foundation/text"
)

// complaintAge limits how long a report names a complaint.
const complaintAge = 24 * time.Hour

// Complaint counts a kind of trouble that needs the operator and that no probe can
// see. A report names it for 24 hours. Its owner may save its state to keep it over a
// restart. It is safe for concurrent use, and its zero value is ready.
type Complaint struct {
	mu    sync.Mutex
	state ComplaintState
}

// ComplaintState is the state of a [Complaint].
type ComplaintState struct {
	Count int       `json:"count"`
	Last  time.Time `json:"last"`
	// Why is the sentence of the last trouble.
	Why string `json:"why"`
}

// With returns the state after trouble at a time. The sentence in why says what to do
// about it.
func (s ComplaintState) With(why string, at time.Time) ComplaintState {
	if at.Sub(s.Last) >= complaintAge {
		s.Count = 0
	}
	return ComplaintState{Count: s.Count + 1, Last: at, Why: why}
}

// Add counts trouble and returns the state after it; see [ComplaintState.With].
func (c *Complaint) Add(why string, at time.Time) ComplaintState {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state = c.state.With(why, at)
	return c.state
}

// State returns the current state.
func (c *Complaint) State() ComplaintState {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

// Restore replaces the state by one that was saved.
func (c *Complaint) Restore(s ComplaintState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state = s
}

// Part returns the named part of a report. The words in what describe the trouble,
// without the number and the reason.
func (c *Complaint) Part(name, what string, now time.Time) Part {
	s := c.State()
	if s.Count == 0 || now.Sub(s.Last) >= complaintAge {
		return Part{Name: name, Status: OK}
	}
	return Part{Name: name, Status: Warning, Message: fmt.Sprintf("%s: %s, last at %s. %s", what, text.Count(s.Count, "time"), s.Last.UTC().Format("2006-01-02 15:04 MST"), s.Why)}
}
