package store_test

import (
	"encoding/json"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/store"
)

// Prompts survive a restart, sessions share prefixes and tools, and those are deleted with the last
// session that needs them.
func TestPromptsAreKept(t *testing.T) {
	dir := t.TempDir()
	prompt := session.Prompt{
		From: 3, Prefix: "p", Instructions: "i", Tools: "t", Day: "2026-03-01", ThinkingFrom: 4,
		Notes:     []session.PromptNote{{Before: 5, Text: "Today: Sunday"}},
		Rewritten: map[int64]chat.Message{6: chat.Text(chat.User, "shorter")},
	}
	prefix := session.Prefix{System: "Be brief.", Tools: session.PrefixTools{{Name: "read", Description: "Reads.", Schema: []byte("{}")}}, ToolsID: "t"}
	elsewhere := prefix
	elsewhere.System = "Work elsewhere."
	reread(t, dir, func(d *db.DB) {
		s := store.New(d)
		for _, one := range []struct {
			session string
			prompt  session.Prompt
			prefix  session.Prefix
		}{{"a", session.Prompt{Prefix: "p"}, prefix}, {"b", prompt, prefix}, {"c", session.Prompt{Prefix: "q"}, elsewhere}} {
			update(t, d, func(tx *db.Tx) error {
				return errors.Join(
					s.Sessions.CreateSession(tx, session.Session{ID: one.session, Client: "web"}),
					store.Prompts{}.SavePrompt(tx, one.session, one.prompt, one.prefix))
			})
		}
	})
	reread(t, dir, func(d *db.DB) {
		s := store.New(d)
		for _, step := range []struct {
			deleted string
			want    map[string]session.Prefix
			rows    [3]int // prompts, prefixes, tools
		}{
			{"", map[string]session.Prefix{"p": prefix, "q": elsewhere}, [3]int{3, 2, 1}},
			{"a", map[string]session.Prefix{"p": prefix, "q": elsewhere}, [3]int{2, 2, 1}},
			{"b", map[string]session.Prefix{"q": elsewhere}, [3]int{1, 1, 1}},
			{"c", map[string]session.Prefix{}, [3]int{}},
		} {
			if step.deleted != "" {
				update(t, d, func(tx *db.Tx) error { return s.Sessions.DeleteSession(tx, step.deleted) })
			}
			err := d.Read(t.Context(), func(q db.Queryer) error {
				if p, known, err := (store.Prompts{}).Prompt(q, "b"); err != nil || known && !cmp.Equal(p, prompt) {
					t.Errorf("without %q, the prompt is %+v, %v", step.deleted, p, err)
				}
				got := map[string]session.Prefix{}
				for _, id := range []string{"p", "q"} {
					before, known, err := store.Prompts{}.Prefix(q, id)
					if err != nil {
						return err
					}
					if known {
						got[id] = before
					}
				}
				if !cmp.Equal(got, step.want) || promptRows(t, q) != step.rows {
					t.Errorf("without %q, the prefixes are %+v, rows %v; want %+v, rows %v", step.deleted, got, promptRows(t, q), step.want, step.rows)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	})
}

// promptRows counts the rows of prompts, prefixes, and tools.
func promptRows(t *testing.T, q db.Queryer) (rows [3]int) {
	t.Helper()
	err := q.QueryRow(`SELECT (SELECT count(*) FROM prompts), (SELECT count(*) FROM prompt_prefixes), (SELECT count(*) FROM prompt_tools)`).Scan(&rows[0], &rows[1], &rows[2])
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// A session whose instructions and tools change leaves none of the former ones behind.
func TestANewPromptReplacesTheFormerPrefix(t *testing.T) {
	reread(t, t.TempDir(), func(d *db.DB) {
		for i := range 3 {
			id := strconv.Itoa(i)
			update(t, d, func(tx *db.Tx) error {
				return store.Prompts{}.SavePrompt(tx, "a", session.Prompt{Prefix: "p" + id}, session.Prefix{System: id, ToolsID: "t" + id})
			})
		}
		err := d.Read(t.Context(), func(q db.Queryer) error {
			if got := promptRows(t, q); got != [3]int{1, 1, 1} {
				t.Errorf("prompts, prefixes, and tools: %v rows; want one each", got)
			}
			now, known, err := store.Prompts{}.Prefix(q, "p2")
			if !known || now.System != "2" {
				t.Errorf("the prefix is %+v, %v", now, known)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

// Prefixes of the version before have their tools in their own row, also after the prompt of a
// session that began with one is saved.
func TestPrefixesOfTheVersionBeforeAreRead(t *testing.T) {
	reread(t, t.TempDir(), func(d *db.DB) {
		row := []byte(`{"system":"Be brief.","tools":[{"Name":"read","Description":"Reads.","Schema":null}]}`)
		update(t, d, func(tx *db.Tx) error {
			_, err := tx.Exec(`INSERT INTO prompt_prefixes (id, json, checksum) VALUES (?, ?, ?)`, "p", row, db.Checksum([]byte("p"), row))
			if err != nil {
				return err
			}
			before, _, err := store.Prompts{}.Prefix(tx, "p")
			return errors.Join(err, store.Prompts{}.SavePrompt(tx, "a", session.Prompt{Prefix: "p"}, before))
		})
		err := d.Read(t.Context(), func(q db.Queryer) error {
			got, known, err := store.Prompts{}.Prefix(q, "p")
			if !known || got.System != "Be brief." || len(got.Tools) != 1 || got.Tools[0].Name != "read" {
				t.Errorf("the prefix is %+v, %v", got, known)
			}
			if rows := promptRows(t, q); rows != [3]int{1, 1, 0} {
				t.Errorf("prompts, prefixes, and tools: %v rows", rows)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
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
