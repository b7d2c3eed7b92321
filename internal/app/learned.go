package app

import (
	"context"
	"encoding/json"
	"iter"
	"strings"
	"time"

	"lilac/internal/engine/db"
	"lilac/internal/model/fallback"
	"lilac/internal/model/listing"
	"lilac/internal/model/llm"
	"lilac/internal/operate/config"
	"lilac/internal/store"
)

const (
	// learnedAge is how long facts about a model are kept: servers are updated.
	learnedAge = 30 * 24 * time.Hour
	// saveLearned bounds the write of a fact.
	saveLearned = 5 * time.Second
)

// breakerPrefix begins the ids of the rows with the waits that providers demanded.
const breakerPrefix = "breaker/"

// keepLearned restores what earlier processes learned of models, and saves what this one
// learns: facts about endpoints, and waits that providers demanded. It also restores the
// complaints of the health report.
func (b *base) keepLearned(ctx context.Context) error {
	var rows map[string]json.RawMessage
	err := b.db.Read(ctx, func(q db.Queryer) (err error) {
		rows, err = store.Learned{}.Learned(q, time.Now().Add(-learnedAge))
		return err
	})
	if err != nil {
		return err
	}
	saved, waits := make(map[string]llm.Facts, len(rows)), map[string]fallback.State{}
	for key, row := range rows {
		if breaker, ok := strings.CutPrefix(key, breakerPrefix); ok {
			var wait fallback.State
			if json.Unmarshal(row, &wait) == nil && wait.OpenUntil.After(time.Now()) {
				waits[breaker] = wait
			}
			continue
		}
		if name, ok := strings.CutPrefix(key, complaintPrefix); ok {
			b.complaints.restore(name, row)
			continue
		}
		var facts llm.Facts
		if err := json.Unmarshal(row, &facts); err != nil {
			b.Logger.Warn("cannot read what a model taught", "error", err)
			continue
		}
		saved[key] = facts
	}
	b.learned.Keep(saved, func(key string, f llm.Facts) { b.saveLearned(key, f) })
	b.breakers.Keep(waits, func(key string, s fallback.State) { b.saveLearned(breakerPrefix+key, s) })
	return nil
}

// saveLearned saves what was learned. A failure costs no answer.
func (b *base) saveLearned(key string, value any) {
	encoded, err := json.Marshal(value)
	if err != nil { // never, for strings, numbers, and times
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), saveLearned)
	defer cancel()
	if err := b.db.Update(ctx, func(tx *db.Tx) error { return store.Learned{}.SaveLearned(tx, key, encoded) }); err != nil {
		b.Logger.Warn("cannot save what was learned", "id", key, "error", err)
	}
}

// windowFinder asks the endpoint for the size of the model's window before the first calls, if
// nobody knows it.
type windowFinder struct {
	llm.Model
	endpoint listing.Endpoint
	name     string
	learned  *llm.Learned
}

// findsWindow wraps a model whose window is unknown.
func findsWindow(m llm.Model, choice config.ModelChoice, options llm.Options) llm.Model {
	if !choice.ContextUnknown || choice.BaseURL == "" {
		return m
	}
	return &windowFinder{Model: m, name: choice.Name, learned: options.Learned, endpoint: listing.Endpoint{
		Anthropic: choice.Type == config.Anthropic, BaseURL: choice.BaseURL, Key: options.APIKey, Headers: options.Headers,
	}}
}

// Prepare asks for the window; see [llm.Prepare].
func (w *windowFinder) Prepare(ctx context.Context) {
	known := w.learned.Cuts()
	changed := known > 0 && listing.Loaded(ctx, w.endpoint, w.name) != known
	if !w.learned.MayAskWindow(time.Now()) && !changed {
		return
	}
	s := listing.Window(ctx, w.endpoint, w.name)
	w.learned.SetContext(s.ContextTokens, s.MaxOutputTokens)
	if s.Ollama {
		w.learned.SetCuts()
	}
}

// Stream implements [llm.Model]. Only the agent prepares a model.
func (w *windowFinder) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Chunk, error] {
	w.Prepare(ctx)
	return w.Model.Stream(ctx, req)
}
