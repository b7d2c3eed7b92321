package app

import (
	"fmt"
	"time"

	"lilac/internal/core/mark"
	"lilac/internal/core/relay"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
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

func (c *complaints) parts(now time.Time) []health.Part {
	return []health.Part{
		c.refused.Part("answers", "answers could not be shown on their platform", now),
		c.unreadable.Part("gate", "replies of the gate's model (router.gate) could not be read", now),
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
		b.complaints.refused.Add("In "+where+": "+r.Reason, at)
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
