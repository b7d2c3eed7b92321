package app

import (
	"encoding/json"
	"fmt"
	"time"

	"lilac/internal/core/mark"
	"lilac/internal/core/relay"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/store"
	"lilac/internal/telemetry/health"
)

// refusedMark is the reaction on a question whose answer the platform refused.
const refusedMark = "🚫"

// complaints are the kinds of trouble that the health report names.
type complaints struct {
	// refused counts answers that a platform refused, unreadable the replies of the
	// gate that nobody can read.
	refused, unreadable health.Complaint
}

// complaintPrefix begins the ids of the saved complaints in the table of what was learned.
const complaintPrefix = "complaint/"

// The names of the complaints in the health report.
const (
	refusedAnswers = "answers"
	unreadableGate = "gate"
)

// restore replaces a complaint by the one that an earlier process saved.
func (c *complaints) restore(name string, saved json.RawMessage) {
	var state health.ComplaintState
	if json.Unmarshal(saved, &state) != nil {
		return
	}
	switch name {
	case refusedAnswers:
		c.refused.Restore(state)
	case unreadableGate:
		c.unreadable.Restore(state)
	}
}

func (c *complaints) parts(now time.Time) []health.Part {
	return []health.Part{
		c.refused.Part(refusedAnswers, "answers could not be shown on their platform", now),
		c.unreadable.Part(unreadableGate, "replies of the gate's model (router.gate) could not be read", now),
	}
}

// answerRefused tells the person who asked, by a reaction or else in private, and
// the operator that a platform refused an answer.
func (b platformBuilder) answerRefused(tx *db.Tx, p *platform, r relay.Row) error {
	where := names(b).titleOf(tx, r.Platform, r.SessionID)
	if where == "" {
		where = r.SessionID
	}
	// The writer runs one transaction at a time, so the state does not change before the commit.
	refused := b.complaints.refused.State().With("In "+where+": "+r.Reason, tx.Now())
	saved, err := json.Marshal(refused)
	if err != nil {
		return fmt.Errorf("encode a complaint: %w", err)
	}
	if err := (store.Learned{}).SaveLearned(tx, complaintPrefix+refusedAnswers, saved); err != nil {
		return err
	}
	tx.AfterCommit(func() {
		b.complaints.refused.Restore(refused)
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
