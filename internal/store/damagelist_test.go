package store_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"lilac/internal/core/environment"
	"lilac/internal/core/session"
	"lilac/internal/core/task"
	"lilac/internal/core/workflow"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/store"
)

// A damaged request appears as damaged in the list of requests, paging continues after it,
// and the list of running requests still returns the others.
func TestADamagedRequestHidesNoOther(t *testing.T) {
	reread(t, t.TempDir(), func(d *db.DB) {
		s := store.New(d)
		update(t, d, func(tx *db.Tx) (err error) {
			for i, id := range []string{"web:s:old", "web:s:bad", "web:s:new"} {
				err = errors.Join(err, s.Requests.CreateRequest(tx, session.Request{ID: id, SessionID: "s", Client: "web", State: event.StateRunning, CreatedAt: int64(i)}))
			}
			_, setErr := tx.Exec(`UPDATE requests SET steps = steps + 1 WHERE id = 'web:s:bad'`)
			return errors.Join(err, setErr)
		})
		err := d.Read(t.Context(), func(q db.Queryer) error {
			all, err := s.Requests.Requests(q, "s", 10, "")
			if err != nil || len(all) != 3 || all[0].ID != "web:s:new" || all[2].ID != "web:s:old" {
				t.Fatalf("all are %+v, %v", all, err)
			}
			detail := all[1].Detail
			if !strings.Contains(detail, "web:s:bad") || !strings.Contains(detail, "damaged") || all[1] != (session.Request{ID: "web:s:bad", State: session.Damaged, Detail: detail}) {
				t.Errorf("the damaged one is served as %+v", all[1])
			}
			older, err := s.Requests.Requests(q, "s", 10, "web:s:bad")
			if err != nil || len(older) != 1 || older[0].ID != "web:s:old" {
				t.Errorf("behind it is %+v, %v", older, err)
			}
			if _, err := s.Requests.Requests(q, "s", 10, "web:s:none"); fault.KindOf(err) != fault.NotFound {
				t.Errorf("behind none: %v", err)
			}
			if running, err := s.Requests.Running(q, ""); err != nil || len(running) != 2 {
				t.Errorf("running are %+v, %v", running, err)
			}
			if r, err := s.Requests.Request(q, "web:s:bad"); !db.IsDamaged(err) {
				t.Errorf("by itself it is served: %+v, %v", r, err)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// A damaged task or workflow appears as damaged in its list and does not hide the others.
func TestADamagedTaskOrWorkflowHidesNoOther(t *testing.T) {
	reread(t, t.TempDir(), func(d *db.DB) {
		s := store.New(d)
		update(t, d, func(tx *db.Tx) (err error) {
			for i, id := range []string{"old", "bad", "new"} {
				err = errors.Join(err,
					s.Tasks.AddTask(tx, task.Task{ID: id, SessionID: "s", RequestID: "web:s:m", State: task.Running, CreatedAt: int64(i)}),
					s.Workflows.SaveWorkflow(tx, workflow.Workflow{ID: id, State: workflow.Waiting, Origin: workflow.Origin{SessionID: "s"}, CreatedAt: int64(i)}))
			}
			_, taskErr := tx.Exec(`UPDATE tasks SET ended_at = 1 WHERE id = 'bad'`)
			_, workflowErr := tx.Exec(`UPDATE workflows SET ended_at = 1 WHERE id = 'bad'`)
			return errors.Join(err, taskErr, workflowErr)
		})
		named := func(told string) bool { return strings.Contains(told, "bad") && strings.Contains(told, "damaged") }
		err := d.Read(t.Context(), func(q db.Queryer) error {
			tasks, err := s.Tasks.Tasks(q, "s", 10, "")
			if err != nil || len(tasks) != 3 || tasks[1].ID != "bad" || tasks[1].State != task.Damaged || !named(tasks[1].Reason) {
				t.Errorf("tasks: %+v, %v", tasks, err)
			}
			if older, err := s.Tasks.Tasks(q, "s", 10, "bad"); err != nil || len(older) != 1 || older[0].ID != "old" {
				t.Errorf("tasks behind it: %+v, %v", older, err)
			}
			if found, err := s.Tasks.Task(q, "bad"); !db.IsDamaged(err) {
				t.Errorf("by itself it is served: %+v, %v", found, err)
			}
			workflows, err := s.Workflows.Workflows(q, "s", true, 10, "")
			if err != nil || len(workflows) != 3 || workflows[1].ID != "bad" || workflows[1].State != workflow.Damaged || !named(workflows[1].Detail) {
				t.Errorf("workflows: %+v, %v", workflows, err)
			}
			if older, err := s.Workflows.Workflows(q, "s", true, 10, "bad"); err != nil || len(older) != 1 || older[0].ID != "old" {
				t.Errorf("workflows behind it: %+v, %v", older, err)
			}
			if found, err := s.Workflows.Workflow(q, "bad"); !db.IsDamaged(err) {
				t.Errorf("by itself it is served: %+v, %v", found, err)
			}
			for name, behindNone := range map[string]func() error{
				"tasks":     func() error { _, err := s.Tasks.Tasks(q, "s", 10, "none"); return err },
				"workflows": func() error { _, err := s.Workflows.Workflows(q, "s", true, 10, "none"); return err },
			} {
				if err := behindNone(); fault.KindOf(err) != fault.NotFound {
					t.Errorf("%s behind none: %v", name, err)
				}
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// In lists for people, placeholders replace a damaged message and a damaged journal entry,
// and the rest stays readable. Reads that the runner continues from return an error.
func TestWhatIsDamagedOfAConversationIsNamedInItsPlace(t *testing.T) {
	reread(t, t.TempDir(), func(d *db.DB) {
		s, request := store.New(d), "web:s:r"
		update(t, d, func(tx *db.Tx) error {
			err := errors.Join(
				s.Sessions.CreateSession(tx, session.Session{ID: "s", Client: "web"}),
				s.Requests.CreateRequest(tx, session.Request{ID: request, SessionID: "s", Client: "web", State: event.StateRunning}))
			for i, id := range []string{"old", "bad", "new"} {
				text := chat.Text(chat.User, id+" words")
				_, mailErr := s.Mailbox.PutMail(tx, session.Mail{SessionID: "s", MessageID: id, RequestID: request, CreatedAt: int64(i), Messages: []chat.Message{text}})
				_, historyErr := s.History.AppendHistory(tx, "s", session.HistoryMessage{ID: id, RequestID: request, CreatedAt: int64(i), Message: text})
				err = errors.Join(err, mailErr, historyErr, s.Journal.Record(tx, request, session.Entry{At: int64(i), Kind: id, Data: text}))
			}
			for _, damage := range []string{
				`UPDATE history SET created_at = 7 WHERE id = 'bad'`,
				`UPDATE session_inbox SET event_id = 'e' WHERE message_id = 'bad'`,
				`UPDATE journal SET step = 7 WHERE kind = 'bad'`,
			} {
				_, damageErr := tx.Exec(damage)
				err = errors.Join(err, damageErr)
			}
			return err
		})
		named := func(told string) bool { return strings.Contains(told, "damaged") && !strings.Contains(told, "words") }
		err := d.Read(t.Context(), func(q db.Queryer) error {
			all, err := s.History.ListMessages(q, "s", 10, "", session.Span{})
			if err != nil || len(all) != 3 || all[0].Message.Text() != "old words" || all[2].Message.Text() != "new words" {
				t.Fatalf("messages: %+v, %v", all, err)
			}
			bad := all[1]
			if !bad.Damaged || bad.ID != "bad" || bad.CreatedAt != 0 || bad.Message.Role != chat.System || !named(bad.Message.Text()) {
				t.Errorf("the damaged message is %+v", bad)
			}
			if older, err := s.History.ListMessages(q, "s", 10, "bad", session.Span{}); err != nil || len(older) != 1 || older[0].Damaged {
				t.Errorf("messages behind it: %+v, %v", older, err)
			}
			story, err := s.Requests.Story(q, request)
			if err != nil || len(story.Messages) != 3 || len(story.Entries) != 3 {
				t.Fatalf("story: %+v, %v", story, err)
			}
			if m := story.Messages[1]; !named(m.Text) || m != (session.StoryMessage{MessageID: "bad", Text: m.Text}) {
				t.Errorf("the damaged message of the story is %+v", m)
			}
			if e := story.Entries[1]; e.Kind != session.EntryDamaged || !named(e.Detail) || e.Data != nil || e.Step != 0 || e.At != 0 {
				t.Errorf("the damaged record is %+v", e)
			}
			for name, read := range map[string]func() error{
				"messages":     func() error { _, err := s.History.Messages(q, "s", 10, ""); return err },
				"conversation": func() error { _, err := s.History.Conversation(q, "s"); return err },
				"journal":      func() error { _, err := s.Journal.Journal(q, request); return err },
				"inbox":        func() error { _, err := s.Mailbox.Mail(q, "s", "bad"); return err },
			} {
				if err := read(); !db.IsDamaged(err) {
					t.Errorf("%s: the runner is served: %v", name, err)
				}
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// A damaged request or task, or an absurd token count, does not make the usage sum of a
// rule fail, which would stop the rule.
func TestADamagedRequestStopsNoSumOfARule(t *testing.T) {
	reread(t, t.TempDir(), func(d *db.DB) {
		s := store.New(d)
		update(t, d, func(tx *db.Tx) (err error) {
			for _, id := range []string{"good", "bad", "absurd"} {
				request := "env:s:" + id
				used := chat.Usage{InputTokens: 10, OutputTokens: 5, CostMicros: 7}
				if id == "absurd" {
					used = chat.Usage{InputTokens: math.MaxInt64, OutputTokens: math.MaxInt64, CostMicros: math.MaxInt64}
				}
				r := session.Request{ID: request, SessionID: "s", Client: "web", State: event.StateDone, CreatedAt: 1}
				err = errors.Join(err, s.Requests.CreateRequest(tx, r))
				r.Usage = used
				err = errors.Join(err, s.Requests.SaveRequest(tx, r),
					s.RuleRuns.AddRun(tx, environment.Run{Rule: id, EventID: id, SessionID: "s", RequestID: request, Outcome: environment.OutcomeAgent, At: 5}),
					s.RuleRuns.AddRun(tx, environment.Run{Rule: "all", EventID: id + "2", SessionID: "s", RequestID: request, Outcome: environment.OutcomeAgent, At: 5}),
					s.Tasks.AddTask(tx, task.Task{ID: "t" + id, Key: id, SessionID: "s", RequestID: request, ChildSession: "c" + id, State: task.Running, CreatedAt: 6}))
			}
			_, usageErr := tx.Exec(`UPDATE requests SET usage = ? WHERE id = 'env:s:bad'`, []byte(`{"inputTokens":1`))
			_, taskErr := tx.Exec(`UPDATE tasks SET json = ? WHERE id = 'tbad'`, []byte(`{`))
			return errors.Join(err, usageErr, taskErr)
		})
		err := d.Read(t.Context(), func(q db.Queryer) error {
			for rule, want := range map[string]environment.Budget{
				"good": {Tokens: 15, CostMicros: 7}, "bad": {}, "absurd": {Tokens: 1e18, CostMicros: 1e18}, "all": {Tokens: 1e18, CostMicros: 1e18},
			} {
				if got, err := s.RuleRuns.SpentBy(q, rule, "s", time.UnixMilli(1)); err != nil || got != want {
					t.Errorf("%s: %+v, %v, want %+v", rule, got, err, want)
				}
				if _, used, err := s.RuleRuns.CountsOf(q, rule, time.UnixMilli(1)); err != nil || used.Tokens != want.Tokens {
					t.Errorf("%s, counted: %+v, %v", rule, used, err)
				}
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}
