package app

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"lilac/internal/core/mark"
	"lilac/internal/core/relay"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/store"
	"lilac/internal/telemetry/health"
)

// refusedMark is the reaction on a question whose answer the platform refused.
const refusedMark = "🚫"

// complaints are the kinds of trouble that the health report names.
type complaints struct {
	// refused counts answers that a platform refused, unreadable the missing and
	// unreadable verdicts of the gate.
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
		c.unreadable.Part(unreadableGate, "verdicts of the gate's model (router.gate) were missing or could not be read", now),
	}
}

// answerRefused tells the people who asked, by a reaction or else in private, and the operator
// that a platform refused an answer, or the rest of it.
func (b platformBuilder) answerRefused(tx *db.Tx, p *platform, r relay.Row, askers []relay.Asker) error {
	where, err := b.complainOfPlace(tx, r.Platform, r.SessionID, r.Reason)
	if err != nil {
		return err
	}
	tx.AfterCommit(func() {
		b.Logger.Error("an answer could not be shown", "platform", r.Platform, "request_id", r.RequestID, "session_id", r.SessionID, "partly", r.Partly(), "reason", r.Reason)
	})
	text := fmt.Sprintf("I could not answer you in %s. %s The page has the answer.", where, r.Reason)
	if r.Partly() {
		text = fmt.Sprintf("I could not show the rest of my answer in %s. %s The page has all of it.", where, r.Reason)
	}
	ref := event.MessageRef{Platform: r.Platform, ChannelID: r.SessionID, MessageID: r.ReplyTo}
	if r.ReplyTo != "" {
		var notice *mark.Notice
		if len(askers) > 0 {
			notice = &mark.Notice{UserID: askers[0].UserID, Text: text}
			askers = askers[1:]
		}
		if err := p.marks.Show(tx, ref, refusedMark, notice); err != nil {
			return err
		}
	} else {
		ref.MessageID = r.RequestID[strings.LastIndexByte(r.RequestID, ':')+1:]
	}
	for _, a := range askers { // no single message is theirs
		if err := p.marks.Tell(tx, ref, mark.Notice{UserID: a.UserID, Text: text}); err != nil {
			return err
		}
	}
	return nil
}

// untold tells the operator that a person could not be told about a refused answer either.
func (b platformBuilder) untold(tx *db.Tx, n mark.Notice, reason error) error {
	return b.complainOfAnswer(tx, fmt.Sprintf("The user %s could not be told in private either: %s", n.UserID, fault.ToWire(reason).Message))
}

// complainOfPlace tells the operator why an answer was not shown in a conversation, and returns the
// name of that.
func (b platformBuilder) complainOfPlace(tx *db.Tx, platform, sessionID, reason string) (where string, err error) {
	where = cmp.Or(names(b).titleOf(tx, platform, sessionID), sessionID)
	return where, b.complainOfAnswer(tx, "In "+where+": "+reason)
}

// complainOfAnswer adds a complaint about an answer to the health report.
func (b platformBuilder) complainOfAnswer(tx *db.Tx, sentence string) error {
	// The writer runs one transaction at a time, so the state does not change before the commit.
	refused := b.complaints.refused.State().With(sentence, tx.Now())
	saved, err := json.Marshal(refused)
	if err != nil {
		return fmt.Errorf("encode a complaint: %w", err)
	}
	if err := (store.Learned{}).SaveLearned(tx, complaintPrefix+refusedAnswers, saved); err != nil {
		return err
	}
	tx.AfterCommit(func() { b.complaints.refused.Restore(refused) })
	return nil
}
