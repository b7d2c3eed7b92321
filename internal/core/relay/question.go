package relay

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"lilac/internal/core/surface"
	"lilac/internal/foundation/event"
)

// maxQuestions bounds the questions of one answer that are shown.
const maxQuestions = 50

// Question is a question to people, in a message of its own: an edit would notify nobody.
// A question at a limit is part of the text and only has buttons.
type Question struct {
	// Pause is its number within the request.
	Pause int    `json:"pause"`
	Kind  string `json:"kind,omitempty"`
	Text  string `json:"text"`
	// Answers are those that buttons offer.
	Answers []string `json:"answers,omitempty"`
	// Offset is the length of the text before it.
	Offset int64 `json:"offset"`
	// Closed reports that it was answered, or is not open any more. Outcome says how.
	Closed  bool   `json:"closed,omitempty"`
	Outcome string `json:"outcome,omitempty"`
}

// The kinds of questions.
const (
	kindApproval = "approval"
	kindQuestion = "question"
)

func (q Question) inText() bool { return q.Kind == "" }

func (q Question) cutID() string { return fmt.Sprintf("question/%d", q.Pause) }

// view returns the message that shows the question.
func (q Question) view(asker, under string, s Settings) View {
	v := View{Key: fmt.Sprintf("question.%d", q.Pause), ReplyToKey: under}
	icon := "❓ "
	if q.Kind == kindApproval {
		icon = "🔐 "
	}
	words := icon + s.Scrub(q.Text)
	if asker != "" {
		words = "<@" + asker + "> " + words
		v.Users = []string{asker}
	}
	after := ""
	if q.Closed {
		after = "\n-# " + oneLine(s.Scrub(q.Outcome), reasonLine)
	} else {
		v.Question = &q
	}
	if pieces := split(words, s.MaxText-statusRoom, 1); len(pieces) > 0 {
		words = pieces[0].String()
	}
	v.Text = words + after
	return v
}

// buttons returns the buttons that answer the question.
func (q Question) buttons(requestID string) (out []surface.Button) {
	labels := map[string]string{"once": "Once", "always": "Always here", "no": "No", "continue": "Continue", "stop": "Stop"}
	for i, answer := range q.Answers {
		label := answer
		if q.Kind != kindQuestion {
			label = cmp.Or(labels[answer], answer)
		}
		out = append(out, surface.Button{ID: surface.AnswerButton(q.Pause, i, requestID), Label: label, Danger: answer == "stop" || answer == "no"})
	}
	return out
}

// ApprovalButtons returns the buttons that answer whether a call may run.
func ApprovalButtons(pause int, requestID string) []surface.Button {
	return Question{Pause: pause, Kind: kindApproval, Answers: []string{"once", "always", "no"}}.buttons(requestID)
}

// ApprovalOutcome says for people how such a question was answered. by is who answered, if known.
func ApprovalOutcome(answer, by string) string {
	return outcomeOf(event.RequestLifecycle{Kind: kindApproval, Answer: answer, AnsweredBy: by})
}

// questionAsked and questionAnswered record a question and its answer.
func (d *decision) questionAsked(in QuestionAsked) {
	if slices.ContainsFunc(d.Questions, func(q Question) bool { return q.Pause == in.Question.Pause }) || len(d.Questions) >= maxQuestions {
		return
	}
	d.Questions = append(slices.Clone(d.Questions), in.Question)
	if q := in.Question; !q.inText() && len(d.Cuts) < maxCuts {
		d.Cuts = append(slices.Clone(d.Cuts), Cut{ID: q.cutID(), Offset: q.Offset})
	}
}

func (d *decision) questionAnswered(in QuestionAnswered) {
	d.Questions = slices.Clone(d.Questions)
	for i, q := range d.Questions {
		if q.Pause == in.Pause || in.Pause == 0 && !q.Closed {
			d.Questions[i].Closed, d.Questions[i].Outcome = true, in.Outcome
		}
	}
}

// questionInput returns the input of a lifecycle event that asks or answers a question, or
// nil.
func questionInput(p event.RequestLifecycle) Input {
	switch {
	case p.Paused && p.Pause > 0:
		return QuestionAsked{Question{Pause: p.Pause, Kind: p.Kind, Text: p.Detail, Answers: p.Answers, Offset: p.Offset}}
	case p.Pause > 0 && p.Answer != "":
		return QuestionAnswered{Pause: p.Pause, Outcome: outcomeOf(p)}
	}
	return nil
}

// outcomeOf says for people how a question was answered.
func outcomeOf(p event.RequestLifecycle) string {
	by := ""
	if p.AnsweredBy != "" {
		by = " by " + p.AnsweredBy
	}
	switch {
	case p.Answer == "timeout":
		return "Nobody answered in time."
	case p.Kind == kindQuestion:
		return "Answered" + by + ": " + p.Answer
	case p.Answer == "once":
		return "Allowed once" + by + "."
	case p.Answer == "always":
		return "Allowed here from now on" + by + "."
	case p.Answer == "no":
		return "Not allowed" + by + "."
	}
	return ""
}

// withQuestions adds the messages of questions: each below the text before it.
func withQuestions(parts [][]View, ids []string, questions []Question, asker string, s Settings) (views []View) {
	below := ""
	add := func(q Question) {
		v := q.view(asker, below, s)
		views, below = append(views, v), v.Key
	}
	shown := map[string]bool{}
	for i, part := range parts {
		for _, q := range questions {
			if q.cutID() == ids[i] && !q.inText() {
				shown[q.cutID()] = true
				add(q)
			}
		}
		for _, v := range part {
			views, below = append(views, v), v.Key
		}
	}
	for _, q := range questions {
		if !q.inText() && !shown[q.cutID()] {
			add(q)
		}
	}
	return views
}

// openQuestion returns the question at a limit that is open, or nil: its buttons belong to
// the last message.
func openQuestion(questions []Question) *Question {
	for i := range questions {
		if questions[i].inText() && !questions[i].Closed {
			return &questions[i]
		}
	}
	return nil
}

// fingerprint identifies the buttons of a question.
func (q *Question) fingerprint() string {
	if q == nil {
		return ""
	}
	return fmt.Sprint(q.Pause, " ", strings.Join(q.Answers, "\x00"))
}
