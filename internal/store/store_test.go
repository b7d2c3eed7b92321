package store_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/core/environment"
	"lilac/internal/core/session"
	"lilac/internal/core/task"
	"lilac/internal/core/workflow"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/store"
	"lilac/internal/testkit/dbtest"
)

func open(t *testing.T) (*db.DB, *store.Store) {
	t.Helper()
	now := time.UnixMilli(1_000_000)
	database, err := db.Open(t.Context(), dbtest.Options(db.Options{Dir: t.TempDir(), Migrations: store.Migrations, Now: func() time.Time {
		now = now.Add(time.Second)
		return now
	}}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { database.Close() })
	return database, store.New(database)
}

func update(t *testing.T, d *db.DB, fn func(tx *db.Tx) error) {
	t.Helper()
	if err := d.Update(t.Context(), fn); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, d *db.DB, fn func(q db.Queryer) error) error {
	t.Helper()
	return d.Read(context.Background(), fn)
}

// Paging with a token continues at the same position, even if the last row of the previous
// page has moved to the top of the list or was deleted.
func TestListsGoOnBehindWhatMovedOrIsGone(t *testing.T) {
	d, s := open(t)
	update(t, d, func(tx *db.Tx) error {
		for i := range int64(4) {
			id := fmt.Sprintf("s%d", i)
			if err := errors.Join(
				s.Tasks.AddTask(tx, task.Task{ID: "t" + id, SessionID: id, State: task.Completed, CreatedAt: 1 + i, EndedAt: 10 - i}),
				s.Workflows.SaveWorkflow(tx, workflow.Workflow{ID: "w" + id, State: workflow.Resolved, CreatedAt: 1 + i, EndedAt: 10 - i}),
				s.Sessions.CreateSession(tx, session.Session{ID: id, Client: "web", UpdatedAt: 1 + i}),
				s.Requests.CreateRequest(tx, session.Request{ID: "web:" + id + ":r", SessionID: id, Client: "web", State: event.StateDone, CreatedAt: 1 + i, EndedAt: 9}),
			); err != nil {
				return err
			}
		}
		for _, id := range []string{"s2", "s3"} { // the other rows were trimmed
			w := workflow.Workflow{ID: "w" + id, State: workflow.Waiting, CreatedAt: int64(id[1]-'0') + 1}
			if err := s.Workflows.SaveWorkflow(tx, w); err != nil {
				return err
			}
		}
		_, err := s.Workflows.TrimWorkflows(tx, time.UnixMilli(10))
		_, more := s.Tasks.TrimTasks(tx, time.UnixMilli(10))
		return errors.Join(err, more, s.Sessions.SetTitle(tx, "s2", "moved"), s.Sessions.DeleteSession(tx, "s1"))
	})
	err := read(t, d, func(q db.Queryer) error {
		for place, want := range map[string]string{session.PageToken(3, "s2"): "s0", session.PageToken(2, "s1"): "s0", "s0": ""} {
			got := ""
			page, err := s.Sessions.Sessions(q, session.ListActive, 9, place)
			for _, one := range page {
				got += one.ID
			}
			if got != want || err != nil {
				t.Errorf("behind %s are the sessions %q, want %q: %v", place, got, want, err)
			}
		}
		page, err := s.Requests.Requests(q, "", 9, session.PageToken(2, "web:s1:r"))
		if len(page) != 1 || page[0].SessionID != "s0" {
			t.Errorf("behind the request that is gone are %+v", page)
		}
		if err != nil {
			return err
		}
		for place, want := range map[string]string{session.PageToken(3, "ts2"): "ts0", session.PageToken(2, "ts1"): "ts0", "ts0": ""} {
			got := ""
			page, err := s.Tasks.Tasks(q, "", 9, place)
			for _, one := range page {
				got += one.ID
			}
			if got != want || err != nil {
				t.Errorf("behind %s are the tasks %q, want %q: %v", place, got, want, err)
			}
		}
		for place, want := range map[string]string{session.PageToken(4, "ws3"): "ws2ws0", session.PageToken(2, "ws1"): "ws0", "ws0": ""} {
			got := ""
			page, err := s.Workflows.Workflows(q, "", false, 9, place)
			for _, one := range page {
				got += one.ID
			}
			if got != want || err != nil {
				t.Errorf("behind %s are the workflows %q, want %q: %v", place, got, want, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestTheChoiceOfASessionIsKept(t *testing.T) {
	d, s := open(t)
	update(t, d, func(tx *db.Tx) error {
		return s.Sessions.CreateSession(tx, session.Session{ID: "s", Client: "web"})
	})
	for _, want := range []session.Choice{{Model: "a/b", Effort: "low", Instructions: "Be brief."}, {Instructions: "x"}, {}} {
		update(t, d, func(tx *db.Tx) error { return s.Sessions.SetChoice(tx, "s", want) })
		err := read(t, d, func(q db.Queryer) error {
			got, err := s.Sessions.Session(q, "s")
			if got.Choice != want {
				t.Errorf("kept %+v, want %+v", got.Choice, want)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestSessionsAreListedByTheirLastUpdate(t *testing.T) {
	d, s := open(t)
	for i := range 5 {
		update(t, d, func(tx *db.Tx) error {
			return s.Sessions.CreateSession(tx, session.Session{ID: fmt.Sprintf("s%d", i), Client: "web", UpdatedAt: int64(i)})
		})
	}
	update(t, d, func(tx *db.Tx) error { return s.Sessions.SetTitle(tx, "s1", "first") })
	var got []string
	before := ""
	for {
		var page []session.Session
		err := read(t, d, func(q db.Queryer) (err error) {
			page, err = s.Sessions.Sessions(q, session.ListActive, 2, before)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, v := range page {
			got = append(got, v.ID)
		}
		before = page[len(page)-1].ID
	}
	if diff := cmp.Diff([]string{"s1", "s4", "s3", "s2", "s0"}, got); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	err := d.Update(t.Context(), func(tx *db.Tx) error { return s.Sessions.CreateSession(tx, session.Session{ID: "s1", Client: "web"}) })
	if fault.KindOf(err) != fault.Conflict {
		t.Errorf("a second s1: %v", err)
	}
}

func TestHistoryIsAppendedOnceAndPaged(t *testing.T) {
	d, s := open(t)
	update(t, d, func(tx *db.Tx) error {
		if err := s.Sessions.CreateSession(tx, session.Session{ID: "s", Client: "web"}); err != nil {
			return err
		}
		for i := range 5 {
			for range 2 {
				seq, err := s.History.AppendHistory(tx, "s", session.HistoryMessage{ID: fmt.Sprint(i), Message: chat.Text(chat.User, fmt.Sprint(i))})
				if err != nil || seq != int64(i+1) {
					t.Errorf("message %d got seq %d, %v", i, seq, err)
				}
			}
		}
		return s.History.AddCompaction(tx, session.Compaction{SessionID: "s", Summary: chat.Text(chat.User, "sum"), KeptFrom: 4})
	})
	err := read(t, d, func(q db.Queryer) error {
		page, err := s.History.Messages(q, "s", 2, "3")
		if err != nil {
			return err
		}
		if len(page) != 2 || page[0].ID != "1" || page[1].ID != "2" {
			t.Errorf("page %+v", page)
		}
		conv, err := s.History.Conversation(q, "s")
		if err != nil {
			return err
		}
		if conv.Summary == nil || conv.Summary.Text() != "sum" || len(conv.Messages) != 2 || conv.Messages[0].ID != "3" {
			t.Errorf("conversation %+v", conv)
		}
		_, err = s.History.Messages(q, "s", 2, "nobody")
		return err
	})
	if fault.KindOf(err) != fault.NotFound {
		t.Errorf("an unknown cursor: %v", err)
	}
}

func TestDamagedRowsAreFaults(t *testing.T) {
	d, s := open(t)
	update(t, d, func(tx *db.Tx) error {
		if err := s.Sessions.CreateSession(tx, session.Session{ID: "s", Client: "web"}); err != nil {
			return err
		}
		if _, err := s.History.AppendHistory(tx, "s", session.HistoryMessage{ID: "h", Message: chat.Text(chat.User, "a")}); err != nil {
			return err
		}
		if _, err := s.Mailbox.PutMail(tx, session.Mail{SessionID: "s", MessageID: "m", State: session.MailWaiting, Messages: []chat.Message{chat.Text(chat.User, "a")}}); err != nil {
			return err
		}
		if err := s.Journal.Record(tx, "r", session.Entry{Kind: "input", Data: "a"}); err != nil {
			return err
		}
		return s.States.SaveState(tx, "s", session.State{Ended: []string{"a"}})
	})
	reads := map[string]func(q db.Queryer) error{
		"history":       func(q db.Queryer) error { _, err := s.History.Conversation(q, "s"); return err },
		"session_inbox": func(q db.Queryer) error { _, err := s.Mailbox.Mail(q, "s", "m"); return err },
		"journal":       func(q db.Queryer) error { _, err := s.Journal.Journal(q, "r"); return err },
		"session_state": func(q db.Queryer) error { _, err := s.States.State(q, "s"); return err },
	}
	columns := map[string]string{"journal": "data"}
	for table, fn := range reads {
		t.Run(table, func(t *testing.T) {
			if err := read(t, d, fn); err != nil {
				t.Fatalf("before the damage: %v", err)
			}
			column := columns[table]
			if column == "" {
				column = "json"
			}
			update(t, d, func(tx *db.Tx) error {
				_, err := tx.Exec(dbtest.ReplaceBytes(table, column, `a`, `b`, ``))
				return err
			})
			if err := read(t, d, fn); fault.KindOf(err) != fault.Internal {
				t.Errorf("after the damage: %v", err)
			}
		})
	}
}

func TestASessionThatRunsIsNotDeleted(t *testing.T) {
	d, s := open(t)
	update(t, d, func(tx *db.Tx) error {
		if err := s.Sessions.CreateSession(tx, session.Session{ID: "s", Client: "web"}); err != nil {
			return err
		}
		if err := s.Requests.CreateRequest(tx, session.Request{ID: "r", SessionID: "s", Client: "web", State: event.StateRunning}); err != nil {
			return err
		}
		return s.States.SaveState(tx, "s", session.State{Active: &session.Active{RequestID: "r", Phase: session.Accepting}})
	})
	remove := func(tx *db.Tx) error { return s.Sessions.DeleteSession(tx, "s") }
	if err := d.Update(t.Context(), remove); fault.KindOf(err) != fault.Conflict {
		t.Errorf("delete while it runs: %v", err)
	}
	update(t, d, func(tx *db.Tx) error { return s.States.SaveState(tx, "s", session.State{}) })
	update(t, d, remove)
	err := read(t, d, func(q db.Queryer) error { _, err := s.Requests.Story(q, "r"); return err })
	if fault.KindOf(err) != fault.NotFound {
		t.Errorf("the request of a deleted session: %v", err)
	}
	if err := d.Update(t.Context(), remove); fault.KindOf(err) != fault.NotFound {
		t.Errorf("delete again: %v", err)
	}
}

func TestWhatIsSpentAddsUpForTheDayAndTheSession(t *testing.T) {
	d, s := open(t)
	v := session.Spent{Steps: 1, Usage: chat.Usage{InputTokens: 3, OutputTokens: 2, CostMicros: 7}, Time: 2 * time.Second}
	update(t, d, func(tx *db.Tx) error { return s.Usage.AddSpent(tx, "2026-01-01", "a", v) })
	update(t, d, func(tx *db.Tx) error { return s.Usage.AddSpent(tx, "2026-01-01", "b", v) })
	update(t, d, func(tx *db.Tx) error { return s.Usage.AddSpent(tx, "2026-01-02", "a", v) })
	err := read(t, d, func(q db.Queryer) error {
		day, err := s.Usage.SpentOn(q, "2026-01-01")
		in, err2 := s.Usage.SpentIn(q, "a")
		none, err3 := s.Usage.SpentIn(q, "c")
		if diff := cmp.Diff([]session.Spent{v.Add(v), v.Add(v), {}}, []session.Spent{day, in, none}); diff != "" {
			t.Errorf("spent (-want +got):\n%s", diff)
		}
		return errors.Join(err, err2, err3)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// After an absurd number was added to a day, later updates still succeed.
func TestAnAbsurdSumStopsNoCounting(t *testing.T) {
	d, s := open(t)
	for _, stored := range []int64{math.MaxInt64 - 17, math.MinInt64} {
		day := fmt.Sprint(stored)
		absurd := session.Spent{Steps: 1, Usage: chat.Usage{InputTokens: stored, CostMicros: stored}}
		for range 3 {
			update(t, d, func(tx *db.Tx) error { return s.Usage.AddSpent(tx, day, day, absurd) })
		}
		update(t, d, func(tx *db.Tx) error {
			return s.Usage.AddSpent(tx, day, day, session.Spent{Steps: 1, Usage: chat.Usage{InputTokens: 10, OutputTokens: 5}})
		})
		err := read(t, d, func(q db.Queryer) error {
			on, err := s.Usage.SpentOn(q, day)
			in, err2 := s.Usage.SpentIn(q, day)
			if diff := cmp.Diff(on, in); diff != "" || on.Steps != 4 || on.Usage.OutputTokens != 5 || on.Usage.InputTokens < 10 || on.Usage.InputTokens > chat.MaxCount {
				t.Errorf("spent %+v\n%s", on, diff)
			}
			return errors.Join(err, err2)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestARequestIsToldByTheMessageThatItAnswers(t *testing.T) {
	d, s := open(t)
	update(t, d, func(tx *db.Tx) error {
		for id, said := range map[string][]string{"m1": {"what it replies to", "Where do they grow?"}, "m2": {strings.Repeat("ä", 500)}, "m3": {"damaged"}} {
			m := session.Mail{SessionID: "s", MessageID: id, RequestID: "web:s:" + id, Queue: event.Prompt, State: session.MailApplied}
			for _, text := range said {
				m.Messages = append(m.Messages, chat.Text(chat.User, text))
			}
			if _, err := s.Mailbox.PutMail(tx, m); err != nil {
				return err
			}
		}
		_, err := tx.Exec(`UPDATE session_inbox SET checksum = checksum + 1 WHERE message_id = 'm3'`)
		return err
	})
	for id, want := range map[string]string{
		"web:s:m1": "Where do they grow?", "web:s:m2": strings.Repeat("ä", 199) + "…", "web:s:m3": "", "env:s:told": "", "odd": "",
	} {
		if err := read(t, d, func(q db.Queryer) error {
			got, err := s.Requests.Asked(q, session.Request{ID: id, SessionID: "s"})
			if got != want {
				t.Errorf("%s asks %q, want %q", id, got, want)
			}
			return err
		}); err != nil {
			t.Error(err)
		}
	}
}

func TestConsumedListsTheNewestRequestsOfAPeriod(t *testing.T) {
	d, s := open(t)
	update(t, d, func(tx *db.Tx) error {
		for i := range 5 {
			r := session.Request{ID: fmt.Sprint("web:s:m", i), SessionID: "s", Client: "web", State: event.StateDone, CreatedAt: int64(i), Model: "a/b", Usage: chat.Usage{InputTokens: int64(10 * i)}}
			if err := s.Requests.CreateRequest(tx, r); err != nil {
				return err
			}
		}
		_, err := tx.Exec(`UPDATE requests SET usage = ? WHERE id = 'web:s:m3'`, []byte("damaged"))
		return err
	})
	for _, c := range []struct {
		since int64
		limit int
		want  []int64
	}{{0, 10, []int64{40, 20, 10, 0}}, {2, 10, []int64{40, 20}}, {0, 1, []int64{40}}, {5, 10, nil}} {
		var got []int64
		if err := read(t, d, func(q db.Queryer) error {
			list, err := s.Requests.Consumed(q, c.since, c.limit)
			for _, one := range list {
				got = append(got, one.Usage.InputTokens)
			}
			return err
		}); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("since %d, at most %d: %v, %v; want %v", c.since, c.limit, got, err, c.want)
		}
	}
}

// What was used is listed with the rule that started the request, how long it took, and calls without a
// request, which are forgotten after a time.
func TestConsumedListsRulesTimesAndCalls(t *testing.T) {
	d, s := open(t)
	var at int64
	update(t, d, func(tx *db.Tx) error {
		at = tx.Now().UnixMilli()
		for i, state := range []event.RequestState{event.StateDone, event.StateFailed} {
			r := session.Request{ID: fmt.Sprint("rule:s:m", i), SessionID: "s", Client: "web", State: state, CreatedAt: at - 10, StartedAt: at - 9, EndedAt: at - 2, Model: "a/b", Usage: chat.Usage{InputTokens: 1}}
			if err := s.Requests.CreateRequest(tx, r); err != nil {
				return err
			}
		}
		for _, id := range []string{"rule:s:m0", "rule:s:other"} {
			if err := s.RuleRuns.AddRun(tx, environment.Run{Rule: "ci " + id, EventID: id, SessionID: "s", RequestID: id, At: at}); err != nil {
				return err
			}
		}
		return errors.Join(
			s.Usage.AddCall(tx, session.PurposeProgram, "v1-ide", "c/d", chat.Usage{OutputTokens: 1}),
			s.Usage.AddCall(tx, session.PurposeTitle, "s", "c/d", chat.Usage{OutputTokens: 2, CostMicros: 3}),
		)
	})
	list := func() (got []session.Consumed) {
		if err := read(t, d, func(q db.Queryer) (err error) { got, err = s.Requests.Consumed(q, at-10, 10); return err }); err != nil {
			t.Fatal(err)
		}
		return got
	}
	want := []session.Consumed{
		{CreatedAt: at - 10, Model: "a/b", Client: "web", SessionID: "s", Usage: chat.Usage{InputTokens: 1}},
		{CreatedAt: at - 10, Model: "a/b", Client: "web", SessionID: "s", Rule: "ci rule:s:m0", TookMs: 7, Usage: chat.Usage{InputTokens: 1}},
		{CreatedAt: at, Model: "c/d", SessionID: "s", Purpose: session.PurposeTitle, Usage: chat.Usage{OutputTokens: 2, CostMicros: 3}},
		{CreatedAt: at, Model: "c/d", Client: "v1-ide", Purpose: session.PurposeProgram, Usage: chat.Usage{OutputTokens: 1}},
	}
	if diff := cmp.Diff(want, list()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	update(t, d, func(tx *db.Tx) error {
		_, err := s.Usage.TrimCalls(tx, time.UnixMilli(at+1))
		return err
	})
	if diff := cmp.Diff(want[:2], list()); diff != "" {
		t.Errorf("after trimming (-want +got):\n%s", diff)
	}
}
