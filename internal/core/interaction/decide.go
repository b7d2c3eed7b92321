package interaction

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"lilac/internal/core/session"
	"lilac/internal/core/surface"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/text"
)

// State is the part of the runner's state that an interaction concerns. A request
// that runs can be stopped; for one that has ended, a stop has no effect.
type State struct {
	// Session is the state of the channel's session, for StatusAsked.
	Session session.State
	// Request is the request to stop, or the one that is running.
	Request session.Request
	// Model is the name of the model in use.
	Model string
	// Current is the question of the running request and Waiting are those of the
	// first queued requests, for QueueAsked.
	Current Question
	Waiting []Question
}

// Question is a message that is being answered or waits. Both fields may be
// empty.
type Question struct{ By, Text string }

// Input is something that a person did.
type Input interface{ isInput() }

// StopPressed reports that a person stops the request.
type StopPressed struct{ By surface.User }

// StatusAsked reports that a person asks what the channel works on.
type StatusAsked struct{}

// QueueAsked reports that a person asks what waits in the channel.
type QueueAsked struct{}

func (StopPressed) isInput() {}
func (StatusAsked) isInput() {}
func (QueueAsked) isInput()  {}

// Effect is an effect of a decision. The types below are the closed set.
type Effect interface{ isEffect() }

// Cancel cancels the request.
type Cancel struct{ Reason string }

// Reply answers the person.
type Reply struct{ Text string }

func (Cancel) isEffect() {}
func (Reply) isEffect()  {}

// Decide returns the unchanged state and the effects.
func Decide(s State, in Input, now time.Time) (State, []Effect) {
	switch in := in.(type) {
	case StopPressed:
		if s.Request.State.Ended() {
			return s, nil // the answer ended in the meantime
		}
		return s, []Effect{Cancel{Reason: "Stopped by @" + plainName(in.By.Name) + "."}}
	case StatusAsked:
		return s, []Effect{Reply{Text: status(s, now)}}
	case QueueAsked:
		return s, []Effect{Reply{Text: queue(s, now)}}
	}
	return s, nil
}

func status(s State, now time.Time) string {
	queued := ""
	if n := len(s.Session.Queue); n > 0 {
		queued = fmt.Sprintf(" Waiting behind it: %d.", n)
	}
	if s.Session.Active == nil {
		return "Nothing runs here. The model is " + s.Model + "."
	}
	if pause := s.Session.OpenPause(); pause != nil {
		return pause.Question + queued
	}
	since := now.Sub(time.UnixMilli(s.Request.StartedAt)).Round(time.Second)
	return fmt.Sprintf("An answer is being made for %s (%s so far, %s).%s", since, text.Count(s.Request.Steps, "step"), s.Model, queued)
}

const (
	// maxListed bounds the waiting questions that are listed; a message on a
	// platform has room for them.
	maxListed = 10
	// maxExcerpt bounds the quoted text of a question, in characters.
	maxExcerpt = 80
)

// queue lists the work in progress and the questions that wait.
func queue(s State, now time.Time) string {
	if s.Session.Active == nil && len(s.Session.Queue) == 0 {
		return "Nothing runs or waits here."
	}
	var lines []string
	if s.Session.Active != nil {
		since := now.Sub(time.UnixMilli(s.Request.StartedAt)).Round(time.Second)
		lines = append(lines, fmt.Sprintf("Running for %s: %s", since, s.Current))
	}
	for i, w := range s.Waiting {
		lines = append(lines, fmt.Sprintf("%d. %s", i+1, w))
	}
	if more := len(s.Session.Queue) - len(s.Waiting); more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(lines, "\n")
}

// String returns the author and the beginning of a question.
func (q Question) String() string {
	by := "somebody"
	if q.By != "" {
		by = "@" + plainName(q.By)
	}
	excerpt := strings.Join(strings.Fields(text.TruncateRunes(q.Text, maxExcerpt)), " ")
	if excerpt == "" {
		return by
	}
	return by + ": " + plainName(excerpt)
}

func questionOf(m chat.Message) Question {
	by, words := session.QuestionOf(m)
	return Question{By: by, Text: words}
}

// plainName returns a name without characters that a platform may format.
func plainName(name string) string {
	name = strings.Join(strings.FieldsFunc(name, func(r rune) bool {
		return !unicode.IsGraphic(r) || unicode.IsSpace(r) || strings.ContainsRune("`*_~|<>[]()\\@#:", r)
	}), " ")
	if name == "" {
		return "somebody"
	}
	return name
}

// Asked is a person who asked something, and when the message was accepted (Unix
// milliseconds).
type Asked struct {
	UserID string
	At     int64
}

// input is one message of a request, and when it was accepted.
type input struct {
	at       int64
	messages []chat.Message
}

// askers returns the authors of the messages that a request answers, each once.
// The last message of an input is the question; the ones before it are what it
// replies to. A burst consists of questions only.
func askers(id event.RequestID, inputs []input) (found []Asked) {
	// The id of a request that a burst began names none of its messages.
	burst := strings.HasPrefix(id.Specific, "b")
	for _, in := range inputs {
		messages := in.messages
		if !burst && len(messages) > 0 {
			messages = messages[len(messages)-1:]
		}
		for _, m := range messages {
			author := session.AuthorOf([]chat.Message{m})
			if author != "" && !slices.ContainsFunc(found, func(a Asked) bool { return a.UserID == author }) {
				found = append(found, Asked{UserID: author, At: in.at})
			}
		}
	}
	return found
}
