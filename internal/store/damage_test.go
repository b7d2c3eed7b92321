package store_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"lilac/internal/core/environment"
	"lilac/internal/core/mark"
	"lilac/internal/core/outbox"
	"lilac/internal/core/relay"
	"lilac/internal/core/router"
	"lilac/internal/core/session"
	"lilac/internal/core/surface"
	"lilac/internal/core/task"
	"lilac/internal/core/workflow"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/store"
	"lilac/internal/surfaces/discord"
	"lilac/internal/testkit/damagetest"
	"lilac/internal/testkit/dbtest"
	"lilac/internal/testkit/effort"
)

// D3: the deep check detects each changed byte in the rows of the tables with checksums,
// such as journal, requests, history and inbox, and reads never return the damaged row.
func TestFlippedBytesOfRowsAreFound(t *testing.T) {
	effort.SkipSlow(t)
	dbtest.FileOnly(t)
	flips := 60
	switch {
	case os.Getenv("LILAC_LONG") != "":
		flips = 2000
	case testing.Short() || !effort.Full(): // -short is for the race detector, where more flips would not find more races
		flips = 15
	}
	dir := t.TempDir()
	filled(t, dir)
	known := map[string]bool{}
	reread(t, dir, func(d *db.DB) {
		for _, v := range everything(t.Context(), d) {
			known[v] = true
		}
	})
	if len(known) < 40 {
		t.Fatalf("only %d things are read; the test shows nothing", len(known))
	}
	damagetest.Case{
		Dir: dir, Migrations: store.Migrations,
		Tables: []string{"requests", "journal", "history", "compactions", "session_inbox", "session_state", "inbox", "tasks", "rule_events", "rule_waits"},
		Verify: func(ctx context.Context, d *db.DB) ([]string, error) { return store.New(d).Verify(ctx) },
		Serve: func(ctx context.Context, d *db.DB) string {
			for _, v := range everything(ctx, d) {
				if !known[v] {
					return v
				}
			}
			return ""
		},
	}.Flip(t, flips, 3)
}

func reread(t *testing.T, dir string, fn func(d *db.DB)) {
	t.Helper()
	d, err := db.Open(t.Context(), db.Options{Dir: dir, Migrations: store.Migrations})
	if err != nil {
		t.Fatal(err)
	}
	fn(d)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

// filled creates a database with rows in the tables with checksums. One row is longer than
// a page.
func filled(t *testing.T, dir string) {
	t.Helper()
	reread(t, dir, func(d *db.DB) {
		s := store.New(d)
		for i := range 8 {
			id, request := fmt.Sprintf("s%d", i), fmt.Sprintf("web:s%d:r", i)
			update(t, d, func(tx *db.Tx) error {
				text := chat.Text(chat.User, strings.Repeat("words ", 3+i*i*i*7))
				_, _, seenErr := s.Inbox.Seen(tx, "http", id, []byte(`{"answer":1}`))
				_, _, noneErr := s.Inbox.Seen(tx, "env", id, nil)
				_, mailErr := s.Mailbox.PutMail(tx, session.Mail{
					SessionID: id, MessageID: "m", RequestID: request, Queue: event.Prompt, State: session.MailWaiting,
					EventID: "e", CreatedAt: 7, Messages: []chat.Message{text},
				})
				_, historyErr := s.History.AppendHistory(tx, id, session.HistoryMessage{ID: "m", RequestID: request, CreatedAt: 8, Message: text})
				for _, err := range []error{
					seenErr, noneErr, mailErr, historyErr,
					s.Sessions.CreateSession(tx, session.Session{ID: id, Client: "web", CreatedAt: 1, UpdatedAt: 1}),
					s.Requests.CreateRequest(tx, session.Request{ID: request, SessionID: id, Client: "web", State: "queued", CreatedAt: 2, WokenBy: "e"}),
					s.Requests.SaveRequest(tx, session.Request{
						ID: request, SessionID: id, Client: "web", State: "failed", Detail: "no", ErrorKind: fault.Timeout,
						CreatedAt: 2, StartedAt: 3, EndedAt: 4, WokenBy: "e", Steps: 5, Recoveries: 1, Model: "demo",
						Usage: chat.Usage{InputTokens: 11, CostMicros: 12},
					}),
					s.Mailbox.MarkMail(tx, id, "m", "", session.MailApplied),
					s.Journal.Record(tx, request, session.Entry{At: 5, Step: 1, Kind: "model", Data: text}),
					s.Journal.Record(tx, request, session.Entry{At: 6, Step: 2, Kind: "end"}),
					s.History.AddCompaction(tx, session.Compaction{SessionID: id, RequestID: request, Summary: text, KeptFrom: 1, CreatedAt: 9}),
					s.States.SaveState(tx, id, session.State{}),
					s.Tasks.AddTask(tx, task.Task{ID: "t" + id, Key: "k" + id, SessionID: id, RequestID: request, State: task.Running, CreatedAt: 3, Command: strings.Repeat("make ", 3+i*i*i*7)}),
					s.RuleEvents.KeepEvent(tx, id, told(i)),
					s.RuleWaits.PutWait(tx, environment.Hold{Rule: "r", SessionID: id, First: 1, Due: int64(2 + i), Event: told(i)}),
					s.Tasks.SaveTask(tx, task.Task{ID: "t" + id, Key: "k" + id, SessionID: id, RequestID: request, State: task.Failed, CreatedAt: 3, EndedAt: 4, Reason: "no"}),
				} {
					if err != nil {
						return err
					}
				}
				return nil
			})
		}
	})
}

func told(i int) event.EnvEvent {
	return event.EnvEvent{ID: "told", Type: "custom.x", Timestamp: 1, Payload: []byte(`"` + strings.Repeat("words ", 3+i*i*i*7) + `"`)}
}

// everything returns all that can be read from a filled database, one line per value. It
// omits rows whose read fails.
func everything(ctx context.Context, d *db.DB) (out []string) {
	s := store.New(d)
	add := func(of string, v any, err error) {
		if err == nil {
			raw, _ := json.Marshal(v)
			out = append(out, of+" "+string(raw))
		}
	}
	for i := range 8 {
		id, request := fmt.Sprintf("s%d", i), fmt.Sprintf("web:s%d:r", i)
		d.Read(ctx, func(q db.Queryer) error {
			r, err := s.Requests.Request(q, request)
			add("request", r, err)
			entries, err := s.Journal.Journal(q, request)
			for _, e := range entries {
				add("entry "+request, e, err)
			}
			messages, err := s.History.Messages(q, id, 10, "")
			for _, m := range messages {
				add("message "+id, m, err)
			}
			mail, err := s.Mailbox.Mail(q, id, "m")
			add("mail", mail, err)
			conversation, err := s.History.Conversation(q, id)
			if conversation.Summary != nil {
				add("summary "+id, conversation.Summary, err)
			}
			state, err := s.States.State(q, id)
			add("state "+id, state, err)
			background, err := s.Tasks.Task(q, "t"+id)
			add("task "+id, background, err)
			kept, err := s.RuleEvents.KeptEvent(q, id, "told")
			add("kept "+id, kept, err)
			wait, any, err := s.RuleWaits.Waiting(q, "r", id)
			if any {
				add("wait "+id, wait, err)
			}
			return nil
		})
		// Seen inserts a pair that it does not find. That is not a stored value.
		d.Update(ctx, func(tx *db.Tx) error {
			if prior, seen, err := s.Inbox.Seen(tx, "http", id, nil); seen {
				add("inbox "+id, string(prior), err)
			}
			return context.Canceled
		})
	}
	return out
}

// A damaged row in rule_waits does not block the other waiting events.
func TestADamagedWaitHoldsUpNoOther(t *testing.T) {
	dir := t.TempDir()
	filled(t, dir)
	reread(t, dir, func(d *db.DB) {
		s := store.New(d)
		update(t, d, func(tx *db.Tx) error {
			_, err := tx.Exec(`UPDATE rule_waits SET json = ? WHERE due = 2`, []byte(`{}`))
			return err
		})
		d.Read(t.Context(), func(q db.Queryer) error {
			if w, any, err := s.RuleWaits.NextWait(q); err != nil || !any || w.SessionID != "s1" {
				t.Errorf("the next one is %+v, %v, %v", w, any, err)
			}
			if w, _, err := s.RuleWaits.Waiting(q, "r", "s0"); !db.IsDamaged(err) {
				t.Errorf("served %+v, %v", w, err)
			}
			return nil
		})
	})
}

// Each list of rows with pending work returns the undamaged rows and skips damaged ones.
func TestADamagedRowWithWorkLeftHoldsUpNoOther(t *testing.T) {
	reread(t, t.TempDir(), func(d *db.DB) {
		s := store.New(d)
		discordRows := store.Discord{}
		update(t, d, func(tx *db.Tx) (err error) {
			for _, id := range []string{"bad", "good"} {
				_, planErr := store.Outbox{}.Plan(tx, outbox.Row{Key: id, Platform: "discord", Send: surface.Send{ChannelID: "7", Nonce: id}})
				err = errors.Join(err, planErr,
					s.Tasks.AddTask(tx, task.Task{ID: id, SessionID: "s", State: task.Running}),
					s.RouterStates.SaveRouterState(tx, "discord", id, router.State{Due: 1}),
					discordRows.OpenGap(tx, discord.Gap{ChannelID: id, After: "1"}))
			}
			for _, where := range []string{`outbox SET checksum = checksum + 1 WHERE key`, `tasks SET checksum = checksum + 1 WHERE id`, `router_state SET checksum = checksum + 1 WHERE session_id`, `discord_gaps SET checksum = checksum + 1 WHERE channel_id`} {
				_, setErr := tx.Exec(`UPDATE ` + where + ` = 'bad'`)
				err = errors.Join(err, setErr)
			}
			return err
		})
		err := d.Read(t.Context(), func(q db.Queryer) error {
			if rows, err := (store.Outbox{}).Unfinished(q, "discord", 10); err != nil || len(rows) != 1 || rows[0].Key != "good" {
				t.Errorf("to be sent: %+v, %v", rows, err)
			}
			if send, err := discordRows.PlannedSend(q, "7", "good"); err != nil || send.Nonce != "good" {
				t.Errorf("about to be sent: %+v, %v", send, err)
			}
			if planned, err := discordRows.IsPlanned(q, "7", "1", ""); !db.IsDamaged(err) {
				t.Errorf("whether a message is ours that may be: %v, %v", planned, err)
			}
			if tasks, err := s.Tasks.RunningTasks(q, ""); err != nil || len(tasks) != 1 || tasks[0].ID != "good" {
				t.Errorf("tasks: %+v, %v", tasks, err)
			}
			if bursts, err := s.RouterStates.RouterBursts(q, "discord"); err != nil || len(bursts) != 1 || bursts["good"].Due != 1 {
				t.Errorf("bursts: %+v, %v", bursts, err)
			}
			if gaps, err := discordRows.Gaps(q, 10); err != nil || len(gaps) != 1 || gaps[0].ChannelID != "good" {
				t.Errorf("gaps: %+v, %v", gaps, err)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// The migration that adds checksums keeps the rows of an older database, and rows that
// were already damaged are still detected.
func TestRowsOfBeforeAreSealed(t *testing.T) {
	dir := t.TempDir()
	var before []db.Migration
	for _, m := range store.Migrations {
		if m.Then == nil {
			before = append(before, m)
		}
	}
	d, err := db.Open(t.Context(), db.Options{Dir: dir, Migrations: before})
	if err != nil {
		t.Fatal(err)
	}
	data := []byte(`{"role":"user","content":"hi"}`)
	update(t, d, func(tx *db.Tx) error {
		for _, statement := range []struct {
			sql  string
			args []any
		}{
			{`INSERT INTO sessions (id, client, created_at, updated_at) VALUES ('s', 'web', 1, 1)`, nil},
			{`INSERT INTO requests (id, session_id, client, state, created_at, usage) VALUES ('r', 's', 'web', 'done', 1, ?)`, []any{[]byte(`{}`)}},
			{`INSERT INTO inbox (source, external_id, value, at) VALUES ('http', '1', ?, 1)`, []any{[]byte(`"a"`)}},
			{`INSERT INTO history (session_id, seq, id, request_id, created_at, json, checksum) VALUES ('s', 1, 'm1', 'r', 1, ?, ?)`, []any{data, db.Checksum([]byte("m1"), data)}},
			{`INSERT INTO history (session_id, seq, id, request_id, created_at, json, checksum) VALUES ('t', 1, 'm2', 'r', 1, ?, 7)`, []any{data}},
			{`INSERT INTO journal (request_id, seq, at, step, kind, data, checksum) VALUES ('r', 1, 1, 1, 'end', ?, ?)`, []any{[]byte(`{}`), db.Checksum([]byte("r/1"), []byte(`{}`))}},
		} {
			if _, err := tx.Exec(statement.sql, statement.args...); err != nil {
				return err
			}
		}
		return nil
	})
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	reread(t, dir, func(d *db.DB) {
		s := store.New(d)
		err := d.Read(t.Context(), func(q db.Queryer) error {
			if story, err := s.Requests.Story(q, "r"); err != nil || len(story.Entries) != 1 {
				t.Errorf("story %+v, %v", story, err)
			}
			if messages, err := s.History.Messages(q, "s", 10, ""); err != nil || len(messages) != 1 {
				t.Errorf("messages %+v, %v", messages, err)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		update(t, d, func(tx *db.Tx) error {
			if prior, seen, err := s.Inbox.Seen(tx, "http", "1", nil); err != nil || !seen || string(prior) != `"a"` {
				t.Errorf("inbox %q, %v, %v", prior, seen, err)
			}
			return nil
		})
		bad, err := s.Verify(t.Context())
		if err != nil || len(bad) != 1 || !strings.Contains(bad[0], "t/1") {
			t.Errorf("damaged rows %v, %v; want the one that was damaged before", bad, err)
		}
	})
}

// Each table with a checksum column must be in the list of the deep check. Otherwise, the
// deep check would miss its damaged rows.
func TestDeepCheckReadsEveryTableWithAChecksum(t *testing.T) {
	dir := t.TempDir()
	filled(t, dir)
	reread(t, dir, func(d *db.DB) {
		s := store.New(d)
		discordRows := store.Discord{}
		update(t, d, func(tx *db.Tx) error {
			_, err := store.Outbox{}.Plan(tx, outbox.Row{Key: "k", Platform: "discord"})
			return errors.Join(err,
				s.Workflows.SaveWorkflow(tx, workflow.Workflow{ID: "w"}),
				store.Prompts{}.SavePrompt(tx, "s", session.Prompt{Prefix: "p"}, session.Prefix{System: "Be brief.", ToolsID: "t"}),
				store.Learned{}.SaveLearned(tx, "m", []byte(`{"contextTokens":4096}`)),
				s.Relays.SaveRelay(tx, relay.Row{Platform: "discord", RequestID: "r"}),
				s.RouterStates.SaveRouterState(tx, "discord", "7", router.State{Due: 1}),
				s.Marks.SaveMark(tx, "k", mark.Mark{Wanted: true}),
				discordRows.SaveGateway(tx, discord.GatewayState{Account: "a"}),
				discordRows.OpenGap(tx, discord.Gap{ChannelID: "7", After: "1"}),
				discordRows.PutInteraction(tx, discord.PendingInteraction{ID: "9", Payload: []byte("{}")}))
		})
		if bad, err := s.Verify(t.Context()); err != nil || len(bad) > 0 {
			t.Fatalf("sound rows: %v, %v", bad, err)
		}
		var names string
		err := d.Read(t.Context(), func(q db.Queryer) error {
			return q.QueryRow(tablesWithChecksum).Scan(&names)
		})
		if err != nil {
			t.Fatal(err)
		}
		tables := strings.Fields(names)
		for _, table := range tables {
			update(t, d, func(tx *db.Tx) error {
				_, err := tx.Exec(`UPDATE ` + table + ` SET checksum = checksum + 1`)
				return err
			})
		}
		bad, err := s.Verify(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, table := range tables {
			if !strings.Contains(strings.Join(bad, "\n"), " of the table "+table+" ") {
				t.Errorf("the deep check does not read %s", table)
			}
		}
	})
}

var tablesWithChecksum = db.Alternative(
	`SELECT group_concat(t.name, ' ') FROM sqlite_schema t, pragma_table_info(t.name) c WHERE c.name = 'checksum'`,
	`SELECT string_agg(table_name, ' ') FROM information_schema.columns WHERE table_schema = current_schema() AND column_name = 'checksum'`)
