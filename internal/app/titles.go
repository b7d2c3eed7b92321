package app

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"lilac/internal/core/session"
	"lilac/internal/core/task"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/model/llm"
	"lilac/internal/model/titles"
	"lilac/internal/serve/prompting"
)

const (
	// maxUntitled bounds the conversations that wait for a title, and titleTime one call.
	maxUntitled = 100
	titleTime   = time.Minute
	// youngest is the largest number of messages of a conversation that gets a title: its first
	// question may need many tools.
	youngest = 100
)

// titler lets the model of the setting titles.model name conversations after their first answer.
// A conversation that people have named keeps its name. Titles are a convenience: one that fails,
// or that the program dies over, is not tried again.
type titler struct {
	*base
	waiting chan string // sessions
}

func newTitler(b *base) *titler { return &titler{base: b, waiting: make(chan string, maxUntitled)} }

// observe notes the sessions in which an answer has ended.
func (t *titler) observe(e event.EnvEvent) {
	session := e.Metadata.TriggerSessionID
	if e.Type != event.StreamCompleted || t.now.Load().config.Titles.Model == "" || task.IsChild(session) {
		return
	}
	var ended event.StreamPayload
	if json.Unmarshal(e.Payload, &ended) != nil || ended.Cancelled || ended.Content == nil || *ended.Content == "" {
		return
	}
	select {
	case t.waiting <- session:
	default: // it keeps the beginning of its first message as its title
	}
}

// run names conversations, one after the other, until ctx ends.
func (t *titler) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case sessionID := <-t.waiting:
			if err := t.name(ctx, sessionID); err != nil && ctx.Err() == nil {
				t.Logger.WarnContext(ctx, "a conversation keeps its first words as its title", "session_id", sessionID, "error", fault.ToWire(err).Message)
			}
		}
	}
}

// name names a conversation that has the beginning of its first message as its title.
func (t *titler) name(ctx context.Context, sessionID string) error {
	var question, answer string
	err := t.db.Read(ctx, func(q db.Queryer) (err error) {
		question, answer, err = t.beginning(q, sessionID)
		return err
	})
	if err != nil || answer == "" {
		return err
	}
	model, modelName, err := t.smallModel()
	if err != nil {
		return err
	}
	asking, cancel := context.WithTimeout(ctx, titleTime)
	defer cancel()
	title, used, err := titles.Name(asking, model, question, answer)
	if err != nil {
		return err
	}
	return t.db.Update(ctx, func(tx *db.Tx) error {
		if err := t.runner.Spend(tx, sessionID, session.Spent{Usage: used}); err != nil {
			return err
		}
		if err := t.store.Usage.AddCall(tx, session.PurposeTitle, sessionID, modelName, used); err != nil || title == "" {
			return err
		}
		if still, _, err := t.beginning(tx, sessionID); err != nil || still == "" {
			return err // somebody has named it in the meantime
		}
		if err := t.store.Sessions.SetTitle(tx, sessionID, title); err != nil {
			return err
		}
		named, err := t.store.Sessions.Session(tx, sessionID)
		if err != nil {
			return err
		}
		return prompting.Publish(ctx, tx, t.store.Inbox, event.SessionUpdated, sessionID+":named", sessionID, "system", named)
	})
}

// smallModel returns the model of titles.model, or else the default model, and its name.
func (b *base) smallModel() (llm.Model, string, error) {
	now := b.now.Load()
	name := cmp.Or(now.config.Titles.Model, now.choice.String())
	choice, err := now.config.LookupModel(name)
	if err != nil {
		return nil, "", err
	}
	return b.observer.Model(newModel(choice, &b.learned)), name, nil
}

// beginning returns the first question of a conversation and its answer, if its title is still
// made from the question.
func (t *titler) beginning(q db.Queryer, sessionID string) (question, answer string, err error) {
	s, err := t.store.Sessions.Session(q, sessionID)
	if fault.KindOf(err) == fault.NotFound {
		return "", "", nil
	}
	if err != nil {
		return "", "", err
	}
	messages, err := t.store.History.Messages(q, sessionID, youngest, "")
	if err != nil || len(messages) >= youngest {
		return "", "", err
	}
	for _, m := range messages {
		switch said := m.Message.Text(); {
		case m.Message.Role == chat.User && question == "":
			question = said
		case m.Message.Role == chat.Assistant && said != "":
			answer = said
		}
	}
	if s.Title != session.TitleOf(question) {
		return "", "", nil
	}
	return question, answer, nil
}
