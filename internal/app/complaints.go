package app

import (
	"fmt"
	"sync"
	"time"

	"lilac/internal/core/mark"
	"lilac/internal/core/relay"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/telemetry/health"
)

// complaintAge is the time for which the health report names a complaint.
const complaintAge = 24 * time.Hour

// refusedMark is the reaction on a question whose answer the platform refused.
const refusedMark = "🚫"

// complaint counts a kind of trouble that needs the operator and that no probe can
// see. It is safe for concurrent use. A restart resets it; the log has all of them.
type complaint struct {
	mu   sync.Mutex
	n    int
	last time.Time
	why  string
}

func (c *complaint) add(why string, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at.Sub(c.last) >= complaintAge {
		c.n = 0
	}
	c.n, c.last, c.why = c.n+1, at, why
}

// part returns the named part of the health report. The sentence in what describes the
// problem, without the number and the reason.
func (c *complaint) part(name, what string, now time.Time) health.Part {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == 0 || now.Sub(c.last) >= complaintAge {
		return health.Part{Name: name, Status: health.OK}
	}
	return health.Part{Name: name, Status: health.Warning, Message: fmt.Sprintf("%s: %d times, last at %s. %s", what, c.n, c.last.UTC().Format("2006-01-02 15:04 MST"), c.why)}
}

// complaints are the kinds of trouble that the health report names.
type complaints struct {
	// refused counts answers that a platform refused, unreadable the replies of the
	// gate that nobody can read.
	refused, unreadable complaint
}

func (c *complaints) parts(now time.Time) []health.Part {
	return []health.Part{
		c.refused.part("answers", "answers could not be shown on their platform", now),
		c.unreadable.part("gate", "replies of the gate's model (router.gate) could not be read", now),
	}
}

// answerRefused tells the person who asked, by a reaction or else in private, and
// the operator that a platform refused an answer.
func (b platformBuilder) answerRefused(tx *db.Tx, p *platform, r relay.Row) error {
	where := names(b).titleOf(tx, r.Platform, r.SessionID)
	if where == "" {
		where = r.SessionID
	}
	at := tx.Now()
	tx.AfterCommit(func() {
		b.complaints.refused.add("In "+where+": "+r.Reason, at)
		b.Logger.Error("an answer could not be shown", "platform", r.Platform, "request_id", r.RequestID, "session_id", r.SessionID, "reason", r.Reason)
	})
	if r.ReplyTo == "" {
		return nil // nobody asked
	}
	var notice *mark.Notice
	if r.Asker != "" {
		notice = &mark.Notice{UserID: r.Asker, Text: fmt.Sprintf("I could not answer you in %s. %s The page has the answer.", where, r.Reason)}
	}
	return p.marks.Show(tx, event.MessageRef{Platform: r.Platform, ChannelID: r.SessionID, MessageID: r.ReplyTo}, refusedMark, notice)
}
