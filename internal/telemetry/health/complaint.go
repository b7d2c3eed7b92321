package health

import (
	"fmt"
	"sync"
	"time"
)

// complaintAge limits how long a report names a complaint.
const complaintAge = 24 * time.Hour

// Complaint counts a kind of trouble that needs the operator and that no probe can
// see. A report names it for 24 hours. A restart resets it; the log has all of them.
// It is safe for concurrent use, and its zero value is ready.
type Complaint struct {
	mu   sync.Mutex
	n    int
	last time.Time
	why  string
}

// Add counts trouble at a time. The sentence in why says what to do about it.
func (c *Complaint) Add(why string, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at.Sub(c.last) >= complaintAge {
		c.n = 0
	}
	c.n, c.last, c.why = c.n+1, at, why
}

// Part returns the named part of a report. The words in what describe the trouble,
// without the number and the reason.
func (c *Complaint) Part(name, what string, now time.Time) Part {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == 0 || now.Sub(c.last) >= complaintAge {
		return Part{Name: name, Status: OK}
	}
	return Part{Name: name, Status: Warning, Message: fmt.Sprintf("%s: %d times, last at %s. %s", what, c.n, c.last.UTC().Format("2006-01-02 15:04 MST"), c.why)}
}
