package relay

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/core/surface"
	"lilac/internal/foundation/event"
)

func TestAQuestionHasAMessageAndTheAnswerContinuesBelowIt(t *testing.T) {
	s := State{Row: Row{RequestID: "discord:1:2", Started: true, Asker: "7"}}
	asked := event.RequestLifecycle{State: event.StateStreaming, Paused: true, Pause: 1, Kind: "approval", Detail: "May I call bash?", Answers: []string{"once", "always", "no"}, Offset: 4}
	s, _ = Decide(s, questionInput(asked), time.Now())
	again, _ := Decide(s, questionInput(asked), time.Now())
	if diff := cmp.Diff(s.Row, again.Row); diff != "" {
		t.Errorf("asked twice (-once +twice)\n%s", diff)
	}
	settings := Settings{MaxText: 2000, Questions: s.Row.Questions, Asker: s.Row.Asker}
	views := Render(Output{Text: "One.Two."}, "2", s.Row.Cuts, nil, Made{}, settings)
	var got []string
	for _, v := range views {
		got = append(got, v.Key+" "+v.Text+" below "+v.ReplyTo+v.ReplyToKey)
	}
	want := []string{"0.0 One. below 2", "question.1 <@7> 🔐 May I call bash? below 0.0", "1.0 Two. below "}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
	if v := views[1]; v.Question == nil || len(v.Users) != 1 || v.Stop || views[0].Stop || !views[2].Stop {
		t.Errorf("%+v", views)
	}
	buttons := views[1].Question.buttons("discord:1:2")
	if len(buttons) != 3 || buttons[1].Label != "Always here" || !buttons[2].Danger {
		t.Errorf("%+v", buttons)
	}
	pause, answer, request, ok := surface.ParseAnswerButton(buttons[2].ID)
	if !ok || pause != 1 || answer != 2 || request != "discord:1:2" {
		t.Errorf("the button %q is %d %d %q", buttons[2].ID, pause, answer, request)
	}

	s, _ = Decide(s, questionInput(event.RequestLifecycle{State: event.StateStreaming, Pause: 1, Kind: "approval", Answer: "no", AnsweredBy: "@bob"}), time.Now())
	settings.Questions = s.Row.Questions
	views = Render(Output{Text: "One."}, "2", s.Row.Cuts, nil, Made{}, settings)
	if v := views[len(views)-1]; v.Question != nil || !strings.HasSuffix(v.Text, "Not allowed by @\u200bbob.") {
		t.Errorf("after the answer: %+v", v)
	}
}

func TestAQuestionThatIsNotAnsweredIsClosedAtTheEnd(t *testing.T) {
	s := State{Row: Row{Started: true}}
	s, _ = Decide(s, QuestionAsked{Question{Pause: 1, Kind: "question", Text: "Which?", Answers: []string{"a"}}}, time.Now())
	s, _ = Decide(s, RequestEnded{State: event.StateCancelled}, time.Now())
	views := Render(Output{Text: "One.", Final: true}, "", s.Row.Cuts, s.Row.End, Made{}, Settings{MaxText: 2000, Questions: s.Row.Questions})
	for _, v := range views {
		if v.Question != nil {
			t.Errorf("still open: %+v", v)
		}
	}
}

// The question at a limit is part of the text, and its buttons are below it.
func TestTheQuestionAtALimitHasButtons(t *testing.T) {
	s := State{Row: Row{RequestID: "r", Started: true}}
	s, _ = Decide(s, questionInput(event.RequestLifecycle{Paused: true, Pause: 1, Detail: "Go on?", Answers: []string{"continue", "stop"}, Offset: 6}), time.Now())
	views := Render(Output{Text: "Go on?"}, "", s.Row.Cuts, nil, Made{}, Settings{MaxText: 2000, Questions: s.Row.Questions})
	if len(views) != 1 || views[0].Question == nil || len(s.Row.Cuts) != 0 {
		t.Errorf("%+v, %+v", views, s.Row.Cuts)
	}
}
