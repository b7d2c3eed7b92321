package session_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/model/fallback"
	"lilac/internal/model/llm"
)

func TestAChoiceTakesEffectWithTheNextRequest(t *testing.T) {
	var asked []session.Choice
	var systems, notes []string
	r := newRig(t, rigOptions{change: func(o *session.Options) {
		o.Model = func(_ context.Context, s session.Session) (llm.Model, error) {
			asked = append(asked, s.Choice)
			return &scripted{window: 100_000, notes: true, do: func(_ context.Context, req llm.Request, _ func(string)) (chat.Message, error) {
				systems = append(systems, req.System)
				notes = append(notes, req.Messages[len(req.Messages)-2].Text())
				return chat.Text(chat.Assistant, "ok"), nil
			}}, nil
		}
		o.Settings.System = "Be kind."
		o.ChannelInstructions = func(db.Queryer, session.Session) string { return "Speak German." }
	}})
	choose := func(eventID string, c session.Choice) {
		t.Helper()
		err := r.db.Update(t.Context(), func(tx *db.Tx) error {
			return r.svc.Choose(tx, "web", sid, eventID, func(choice *session.Choice) { *choice = c })
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	want := session.Choice{Model: "a/b", Effort: "low", Instructions: "Be brief."}
	choose("c1", want) // before the session exists
	r.send("web:s1:r1", "m1", event.Prompt, "one")
	r.waitForEnd("web:s1:r1")
	choose("c2", session.Choice{})
	r.send("web:s1:r2", "m2", event.Prompt, "two")
	if req := r.waitForEnd("web:s1:r2"); req.Model == "" {
		t.Error("the record names no model")
	}
	if len(asked) != 2 || asked[0] != want || asked[1] != (session.Choice{}) {
		t.Errorf("the models were asked for with %+v", asked)
	}
	// The conversation keeps its first instructions, and a note tells the new ones.
	if len(systems) != 2 || !strings.Contains(systems[0], "Be kind.\n\nSpeak German.\n\nBe brief.") || systems[1] != systems[0] {
		t.Errorf("the instructions were %q", systems)
	}
	if len(notes) != 2 || !strings.Contains(notes[1], "Be kind.\n\nSpeak German.") || strings.Contains(notes[1], "Be brief.") {
		t.Errorf("the notes were %q", notes)
	}
}

// The record of a request has what was chosen for it: the model, the effort, and the
// instructions of the channel and the conversation.
func TestTheRecordHasTheChoice(t *testing.T) {
	r := newRig(t, rigOptions{change: func(o *session.Options) {
		o.Model = func(context.Context, session.Session) (llm.Model, error) {
			return &scripted{window: 100_000, effort: "low", do: echo}, nil
		}
		o.ChannelInstructions = func(db.Queryer, session.Session) string { return "Speak German." }
	}})
	r.send(req1, "m1", event.Prompt, "one")
	r.waitForEnd(req1)
	r.read(func(q db.Queryer) error {
		entries, err := tables().Journal.Journal(q, req1)
		for _, e := range entries {
			if e.Kind == "model" && strings.Contains(string(e.Data), `"effort":"low"`) && strings.Contains(string(e.Data), `"instructions":"Speak German."`) {
				return err
			}
		}
		t.Errorf("the journal has neither the effort nor the instructions: %+v", entries)
		return err
	})
}

func TestASwitchToAnotherModelIsRecordedAndShown(t *testing.T) {
	var breakers fallback.Breakers
	down := &scripted{window: 100_000, do: func(context.Context, llm.Request, func(string)) (chat.Message, error) {
		return chat.Message{}, fault.New(fault.Unavailable, "It is down.")
	}}
	r := newRig(t, rigOptions{change: func(o *session.Options) {
		works := o.Model
		o.Model = func(ctx context.Context, s session.Session) (llm.Model, error) {
			m, err := works(ctx, s)
			return fallback.New([]fallback.Candidate{{Model: down, Name: "p/down", Key: "1"}, {Model: m, Name: "p/works", Key: "2"}}, &breakers, time.Now), err
		}
	}})
	const id = "web:s1:r1"
	r.send(id, "m1", event.Prompt, "hello")
	if req := r.waitForEnd(id); req.State != event.StateDone || req.Notes != "p/works continued for p/down: It is down." {
		t.Fatalf("ended as %s: %s, with the notes %q", req.State, req.Detail, req.Notes)
	}
	var switched int
	r.read(func(q db.Queryer) error {
		entries, err := tables().Journal.Journal(q, id)
		for _, e := range entries {
			if e.Kind == "model_switched" && strings.Contains(string(e.Data), "It is down.") {
				switched++
			}
		}
		return err
	})
	var notes []string
	for _, e := range r.events(event.OutputTopic(id)) {
		if p, err := event.Decode(e); err == nil && p.EventType() == event.OutputResponseText {
			final, _ := p.(event.FinalText)
			notes = final.Notes
		}
	}
	if switched != 1 || len(notes) != 1 || notes[0] != "p/works continued for p/down: It is down." {
		t.Errorf("%d entries, notes %q", switched, notes)
	}
	var rebuilt []event.Payload
	r.read(func(q db.Queryer) (err error) {
		rebuilt, err = r.svc.FinalOutput(q, sid, id)
		return err
	})
	if final, ok := rebuilt[len(rebuilt)-1].(event.FinalText); !ok || len(final.Notes) != 1 {
		t.Errorf("the output that is rebuilt from the journal ends with %+v", rebuilt[len(rebuilt)-1])
	}
}
