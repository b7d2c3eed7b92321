package app

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"lilac/internal/core/session"
	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

// interactions is what people ask for with buttons and commands on a platform.
type interactions struct {
	p  *program
	on *platform
}

// Running returns the request that a channel works on, "" for none.
func (i *interactions) Running(ctx context.Context, channelID string) (requestID string, err error) {
	state, err := i.state(ctx, channelID)
	if err != nil || state.Active == nil {
		return "", err
	}
	return state.Active.RequestID, nil
}

func (i *interactions) state(ctx context.Context, channelID string) (state session.State, err error) {
	err = i.p.db.Read(ctx, func(q db.Queryer) (err error) {
		state, err = i.p.store.State(q, channelID)
		return err
	})
	return state, err
}

// Askers returns the people whose messages a request answers.
func (i *interactions) Askers(ctx context.Context, requestID string) (ids []string, err error) {
	err = i.p.db.Read(ctx, func(q db.Queryer) error {
		if requestID, err = i.p.workflows.AskedBy(q, requestID); err != nil {
			return err
		}
		id, err := event.ParseRequestID(requestID)
		if err != nil {
			return fault.Wrap(fault.NotFound, err, "There is no such request.")
		}
		story, err := i.p.store.Story(q, requestID)
		if err != nil {
			return err
		}
		for _, m := range story.Messages {
			mail, err := i.p.store.Mail(q, story.SessionID, m.MessageID)
			if err != nil {
				return err
			}
			said := mail.Messages
			if !burst(id) && len(said) > 0 {
				said = said[len(said)-1:] // what stands before it is what it replies to
			}
			for _, one := range said {
				if author := session.AuthorOf([]chat.Message{one}); author != "" && !slices.Contains(ids, author) {
					ids = append(ids, author)
				}
			}
		}
		return nil
	})
	return ids, err
}

// burst reports whether a request answers what several people said together:
// then its id names none of their messages.
func burst(id event.RequestID) bool { return strings.HasPrefix(id.Specific, "b") }

// Stop ends a request for somebody who may.
func (i *interactions) Stop(tx *db.Tx, requestID string, by surface.User) error {
	r, err := i.p.store.Request(tx, requestID)
	if err != nil {
		return err
	}
	if r.State.Ended() {
		return nil // it was pressed while the answer ended
	}
	e, err := event.New(event.Meta{ID: "stop:" + requestID, Time: tx.Now(), Headers: event.RequestHeaders(requestID, r.SessionID, r.Client)},
		event.RequestCancel{Reason: "Stopped by @" + plainName(by.Name) + "."})
	if err != nil {
		return err
	}
	return tx.Publish(e)
}

// plainName is a name as it may stand in a sentence of ours: people choose
// theirs freely.
func plainName(name string) string {
	name = strings.Join(strings.FieldsFunc(name, func(r rune) bool {
		return !unicode.IsGraphic(r) || unicode.IsSpace(r) || strings.ContainsRune("`*_~|<>[]()\\@#:", r)
	}), " ")
	if name == "" {
		return "somebody"
	}
	return name
}

// Status says what a channel works on.
func (i *interactions) Status(ctx context.Context, channelID string) (string, error) {
	state, err := i.state(ctx, channelID)
	if err != nil {
		return "", err
	}
	waiting := ""
	if n := len(state.Queue); n > 0 {
		waiting = fmt.Sprintf(" Behind it %d more wait.", n)
	}
	model := i.p.now.Load().choice.String()
	if state.Active == nil {
		return "Nothing runs here. The model is " + model + ".", nil
	}
	if pause := state.OpenPause(); pause != nil {
		return pause.Question + waiting, nil
	}
	var r session.Request
	if err := i.p.db.Read(ctx, func(q db.Queryer) (err error) { r, err = i.p.store.Request(q, state.Active.RequestID); return err }); err != nil {
		return "", err
	}
	since := time.Since(time.UnixMilli(r.StartedAt)).Round(time.Second)
	return fmt.Sprintf("An answer is being made for %s (%d steps so far, %s).%s", since, r.Steps, model, waiting), nil
}

// Ask begins a request about a message.
func (i *interactions) Ask(tx *db.Tx, m surface.Message, by surface.User) error {
	return i.on.router.Ask(tx, m, by)
}
