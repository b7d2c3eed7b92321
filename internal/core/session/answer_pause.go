package session

import (
	"fmt"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/grant"
	"lilac/internal/foundation/policy"
)

// codeNotPaused is the code of a fault.Conflict: the question is not open any more.
const codeNotPaused = "not_paused"

// PauseAnswer is the answer to a question that interfaces other than a message give: a
// button, or the API.
type PauseAnswer struct {
	// Pause is the number of the question; 0 means the one that is open.
	Pause  int
	Answer Answer
	// Reply is the answer to a question of the agent.
	Reply string
	// By is the person who answers, with the name that people see; the operator's is "".
	By   grant.Person
	Name string
}

// OpenQuestion is a request with its open pause.
type OpenQuestion struct {
	RequestID, SessionID, Client string
	// Pause is nil if the request does not wait.
	Pause *Pause
	// Asker is the person who may answer a question that is not about an approval; "" means
	// everybody.
	Asker string
}

// OpenQuestion returns the open question of a request that has this state.
func (s State) OpenQuestion(r Request) OpenQuestion {
	q := OpenQuestion{RequestID: r.ID, SessionID: r.SessionID, Client: r.Client}
	if s.isActive(r.ID) {
		q.Pause, q.Asker = s.Active.Paused, s.Active.Asker
	}
	return q
}

// AnswerPause publishes an answer to the open question of a request, and returns the
// question. It returns a fault.Conflict if the question is not open, a fault.Invalid if it
// has other answers, and a fault.Denied if the person may not answer. If one question gets
// several answers, the first counts.
func AnswerPause(tx *db.Tx, q OpenQuestion, a PauseAnswer) (Pause, error) {
	p := q.Pause
	switch {
	case p == nil || a.Pause != 0 && a.Pause != p.Number:
		return Pause{}, &fault.Error{Kind: fault.Conflict, Code: codeNotPaused, Message: "This request is not waiting for this answer: somebody has answered, or it has ended."}
	case a.Answer == Replied && p.Kind == ForReply && (a.Reply == "" || len(a.Reply) > maxReply):
		return Pause{}, fault.InvalidField("reply", "The reply needs from 1 to %d bytes.", maxReply)
	case !p.Accepts(a.Answer):
		return Pause{}, fault.InvalidField("answer", "%q does not answer this question. Use %s.", a.Answer, p.expected())
	case !q.mayPress(a.By):
		return Pause{}, fault.New(fault.Denied, "%s", p.whoMay())
	}
	if p.Form != nil && a.Answer == Replied {
		if _, err := p.Form.Read(a.Reply); err != nil {
			return Pause{}, err
		}
	}
	text := string(a.Answer)
	if a.Answer == Replied {
		text = a.Reply
	}
	id := fmt.Sprintf("answer:%s:%d", q.RequestID, p.Number)
	ev, err := event.New(event.Meta{ID: id, Time: tx.Now(), Headers: event.RequestHeaders(q.RequestID, q.SessionID, q.Client)}, event.RequestMessage{
		Queue: event.Steer, MessageID: id, AnswersPause: p.Number, Answer: string(a.Answer), AnsweredBy: a.Name,
		Messages: []chat.Message{chat.Text(chat.User, text)},
	})
	if err != nil {
		return Pause{}, err
	}
	return *p, tx.Publish(ev)
}

// mayPress reports whether a person may answer with a button.
func (q OpenQuestion) mayPress(by grant.Person) bool {
	switch {
	case by.IsOperator():
		return true
	case q.Pause.Kind == ForApproval:
		return policy.MayApprove(q.Pause.Approvers, by)
	}
	return q.Asker == "" || q.Asker == by.ID
}

// expected names the answers to the question.
func (p Pause) expected() string {
	switch p.Kind {
	case ForApproval:
		return "once, always, or no"
	case ForReply:
		return "reply, with a text"
	}
	return "continue or stop"
}

// whoMay says who may answer.
func (p Pause) whoMay() string {
	if p.Kind == ForApproval {
		return "You may not approve this. The operator may, and the people whom the policy names."
	}
	return "Only the person who asked can answer this."
}
