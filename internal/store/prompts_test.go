package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/model/llm"
	"lilac/internal/store"
)

// Prompts survive a restart, sessions share their prefixes, and a prefix is deleted with the last
// session that needs it.
func TestPromptsAreKept(t *testing.T) {
	dir := t.TempDir()
	prompt := session.Prompt{
		From: 3, Prefix: "p", Instructions: "i", Tools: "t", Day: "2026-03-01", ThinkingFrom: 4,
		Notes:     []session.PromptNote{{Before: 5, Text: "Today: Sunday"}},
		Rewritten: map[int64]chat.Message{6: chat.Text(chat.User, "shorter")},
	}
	prefix := session.Prefix{System: "Be brief.", Tools: []llm.ToolSpec{{Name: "read", Schema: []byte(`{"type":"object"}`)}}}
	reread(t, dir, func(d *db.DB) {
		update(t, d, func(tx *db.Tx) error {
			s := store.New(d)
			return errors.Join(
				s.Sessions.CreateSession(tx, session.Session{ID: "a", Client: "web"}), s.Sessions.CreateSession(tx, session.Session{ID: "b", Client: "web"}),
				store.Prompts{}.SavePrompt(tx, "a", session.Prompt{Prefix: "p"}, prefix),
				store.Prompts{}.SavePrompt(tx, "b", prompt, prefix))
		})
	})
	reread(t, dir, func(d *db.DB) {
		for _, deleted := range []string{"", "a", "b"} {
			if deleted != "" {
				update(t, d, func(tx *db.Tx) error { return store.New(d).Sessions.DeleteSession(tx, deleted) })
			}
			err := d.Read(t.Context(), func(q db.Queryer) error {
				p, known, err := store.Prompts{}.Prompt(q, "b")
				before, shared, prefixErr := store.Prompts{}.Prefix(q, "p")
				if want := deleted != "b"; known != want || shared != want || want && (!cmp.Equal(p, prompt) || !cmp.Equal(before, prefix)) {
					t.Errorf("without %q: %v %+v, %v %+v", deleted, known, p, shared, before)
				}
				return errors.Join(err, prefixErr)
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	})
}

// What models taught survives a restart, until it is old.
func TestLearnedFactsAreKept(t *testing.T) {
	dir := t.TempDir()
	learn := func(d *db.DB, limits ...int) (*llm.Learned, *llm.Registry) {
		var r llm.Registry
		model := r.Get("http://localhost/v1", "m") // before the database is open
		err := d.Read(t.Context(), func(q db.Queryer) error {
			saved, err := store.Learned{}.Learned(q, time.Now().Add(-time.Hour))
			r.Keep(saved, func(key string, f llm.Facts) {
				update(t, d, func(tx *db.Tx) error { return store.Learned{}.SaveLearned(tx, key, f) })
			})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range limits {
			model.SetContext(n, 0)
		}
		return model, &r
	}
	reread(t, dir, func(d *db.DB) { learn(d, 4096, 8192) })
	reread(t, dir, func(d *db.DB) {
		model, registry := learn(d)
		if got := model.Facts().ContextTokens; got != 8192 {
			t.Errorf("after a restart, the window is %d", got)
		}
		if got := registry.Get("http://localhost/v1", "other").Facts().ContextTokens; got != 0 {
			t.Errorf("another model has the window %d", got)
		}
		update(t, d, func(tx *db.Tx) error {
			_, err := store.Learned{}.TrimLearned(tx, time.Now().Add(time.Hour))
			return err
		})
		if model, _ := learn(d); model.Facts().ContextTokens != 0 {
			t.Error("old facts are kept")
		}
	})
}
