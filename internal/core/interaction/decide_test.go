package interaction

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/core/session"
	"lilac/internal/core/surface"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
)

func TestAStopCancelsARequestThatHasNotEnded(t *testing.T) {
	for name, c := range map[string]struct {
		state event.RequestState
		by    string
		want  []Effect
	}{
		"queued":                {event.StateQueued, "Ada", []Effect{Cancel{"Stopped by @Ada."}}},
		"running":               {event.StateRunning, "Ada", []Effect{Cancel{"Stopped by @Ada."}}},
		"control: done":         {event.StateDone, "Ada", nil},
		"control: failed":       {event.StateFailed, "Ada", nil},
		"a name with a mention": {event.StateRunning, "<@1> **Ada**\nBee", []Effect{Cancel{"Stopped by @1 Ada Bee."}}},
		"a name of signs":       {event.StateRunning, "@#:*", []Effect{Cancel{"Stopped by @somebody."}}},
	} {
		t.Run(name, func(t *testing.T) {
			_, got := Decide(State{Request: session.Request{State: c.state}}, StopPressed{By: surface.User{Name: c.by}}, time.UnixMilli(0))
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func TestTheStatusDescribesTheRunningRequest(t *testing.T) {
	running := session.State{Active: &session.Active{RequestID: "r"}}
	queued, paused := running, running
	queued.Queue = make([]session.QueuedRequest, 2)
	paused.Active = &session.Active{RequestID: "r", Paused: &session.Pause{Question: "Continue?"}}
	for name, c := range map[string]struct {
		session session.State
		want    string
	}{
		"idle":                {session.State{}, "Nothing runs here. The model is demo."},
		"running":             {running, "An answer is being made for 5s (3 steps so far, demo)."},
		"with a queue":        {queued, "An answer is being made for 5s (3 steps so far, demo). Waiting behind it: 2."},
		"waiting for a reply": {paused, "Continue?"},
	} {
		t.Run(name, func(t *testing.T) {
			s := State{Session: c.session, Request: session.Request{StartedAt: 1000, Steps: 3}, Model: "demo"}
			_, got := Decide(s, StatusAsked{}, time.UnixMilli(6000))
			if diff := cmp.Diff([]Effect{Reply{c.want}}, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func TestTheAskersAreTheAuthorsOfTheQuestions(t *testing.T) {
	by := func(id string) chat.Message {
		return chat.Text(chat.User, "[discord user_id="+id+" user_name=x message_id=1]\nhello")
	}
	for name, c := range map[string]struct {
		specific string
		inputs   []input
		want     []Asked
	}{
		"a reply: not the author of the quoted message": {"5", []input{{1, []chat.Message{by("7"), by("8")}}}, []Asked{{"8", 1}}},
		"a burst: everybody":                            {"b1", []input{{1, []chat.Message{by("7"), by("8"), by("7")}}}, []Asked{{"7", 1}, {"8", 1}}},
		"a follow-up of another person":                 {"5", []input{{1, []chat.Message{by("7")}}, {2, []chat.Message{by("8")}}, {3, []chat.Message{by("7")}}}, []Asked{{"7", 1}, {"8", 2}}},
		"no author":                                     {"5", []input{{1, []chat.Message{chat.Text(chat.User, "hello")}}, {2, nil}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, askers(event.RequestID{Specific: c.specific}, c.inputs)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}
