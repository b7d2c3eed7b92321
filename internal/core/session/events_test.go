package session_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/model/llm"
	"lilac/internal/testkit/effort"
)

// promptAmongEvents sends an event every second to a model that takes 2.5 s for an answer, and a
// prompt after ten seconds. It returns how long the prompt took, at most two minutes, and the
// number of events that were not answered.
func promptAmongEvents(t *testing.T, rule string) (took time.Duration, unanswered int) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigOptions{dir: dir, do: func(_ context.Context, req llm.Request, _ func(string)) (chat.Message, error) {
			time.Sleep(2500 * time.Millisecond)
			return chat.Text(chat.Assistant, "seen "+lastUser(req)), nil
		}})
		var asked time.Time
		for n := range 120 {
			id := fmt.Sprint("e", n)
			r.send("web:s1:"+id, id, event.FollowUp, id, func(m *event.RequestMessage) {
				m.AnyActive, m.ElseRequestID, m.Rule = true, "web:s1:"+id, rule
			})
			if n == 10 {
				asked = time.Now()
				r.send("web:s1:p", "p", event.Prompt, "hello")
			}
			time.Sleep(time.Second)
			if n > 10 && took == 0 && r.request("web:s1:p").State.Ended() {
				took = time.Since(asked)
			}
		}
		if took == 0 {
			took = time.Since(asked)
		}
		waitUntil(t, "everything is handled", func() bool {
			idle := false
			r.read(func(q db.Queryer) error {
				s, err := r.store.States.State(q, sid)
				idle = s.Idle()
				return err
			})
			return idle
		})
		for n := range 120 {
			if r.mail(fmt.Sprint("e", n)) != session.MailApplied {
				unanswered++
			}
		}
		r.stop()
	})
	return took, unanswered
}

func TestEventsThatComeFasterThanAnswersStarveNobody(t *testing.T) {
	effort.SkipSlow(t)
	took, unanswered := promptAmongEvents(t, "tick")
	if took > 15*time.Second || unanswered > 0 {
		t.Errorf("the prompt took %s; %d events were not answered", took, unanswered)
	}
}

func TestControlMessagesWithoutARuleKeepARequestAlive(t *testing.T) {
	if took, _ := promptAmongEvents(t, ""); took < time.Minute {
		t.Errorf("the prompt took %s: the test notices nothing", took)
	}
}
