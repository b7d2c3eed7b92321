package store_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
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
	prefix := session.Prefix{System: "Be brief."}
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
	kept := func(d *db.DB) map[string]json.RawMessage {
		var out map[string]json.RawMessage
		err := d.Read(t.Context(), func(q db.Queryer) (err error) {
			out, err = store.Learned{}.Learned(q, time.Now().Add(-time.Hour))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	reread(t, dir, func(d *db.DB) {
		for _, facts := range []string{`{"contextTokens":4096}`, `{"contextTokens":8192}`} {
			update(t, d, func(tx *db.Tx) error { return store.Learned{}.SaveLearned(tx, "m", []byte(facts)) })
		}
	})
	reread(t, dir, func(d *db.DB) {
		if got := kept(d); len(got) != 1 || string(got["m"]) != `{"contextTokens":8192}` {
			t.Errorf("after a restart, the facts are %s", got)
		}
		update(t, d, func(tx *db.Tx) error {
			_, err := store.Learned{}.TrimLearned(tx, time.Now().Add(time.Hour))
			return err
		})
		if got := kept(d); len(got) != 0 {
			t.Errorf("old facts are kept: %s", got)
		}
	})
}
