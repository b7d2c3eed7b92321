package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/core/session"
	"lilac/internal/core/task"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/fault"
	"lilac/internal/store"
	"lilac/internal/testkit/dbtest"
)

func taskIDs(tasks []task.Task) (out []string) {
	for _, t := range tasks {
		out = append(out, t.ID)
	}
	return out
}

func TestTasks(t *testing.T) {
	d, err := db.Open(t.Context(), dbtest.Options(db.Options{Dir: t.TempDir(), Migrations: store.Migrations}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	s := store.New(d)
	code := 3
	first := task.Task{
		ID: "t1", Key: "k1", SessionID: "s1", RequestID: "web:s1:m", Client: "web", Depth: 2, Kind: task.Command, Description: "build",
		Command: "make", Dir: "src", State: task.Running, CreatedAt: 1, Deadline: 99,
	}
	child := task.Task{ID: "t2", SessionID: "s1", Kind: task.Agent, ChildSession: "sub-t2", ChildRequest: "sub:s1:t2", State: task.Running, CreatedAt: 2}
	other := task.Task{ID: "t3", SessionID: "s2", Kind: task.Command, State: task.Running, CreatedAt: 2}
	update(t, d, func(tx *db.Tx) error {
		for _, one := range []task.Task{first, child, other} {
			if err := s.Tasks.AddTask(tx, one); err != nil {
				return err
			}
		}
		first.State, first.ExitCode, first.Reason, first.EndedAt, first.Result = task.Failed, &code, "no", 50, "the end"
		return s.Tasks.SaveTask(tx, first)
	})
	err = d.Read(context.Background(), func(q db.Queryer) error {
		for _, find := range []func() (task.Task, error){
			func() (task.Task, error) { return s.Tasks.Task(q, "t1") },
			func() (task.Task, error) { return s.Tasks.TaskByKey(q, "k1") },
		} {
			if got, err := find(); err != nil || !cmp.Equal(got, first) {
				t.Errorf("got %+v, %v", got, err)
			}
		}
		if got, err := s.Tasks.TaskByChild(q, "sub-t2"); err != nil || !cmp.Equal(got, child) {
			t.Errorf("by its session: %+v, %v", got, err)
		}
		for name, err := range map[string]error{
			"an unknown id": second(s.Tasks.Task(q, "no")), "no key": second(s.Tasks.TaskByKey(q, "")), "no child": second(s.Tasks.TaskByChild(q, "")),
		} {
			if fault.KindOf(err) != fault.NotFound {
				t.Errorf("%s: %v", name, err)
			}
		}
		for name, c := range map[string]struct {
			list func() ([]task.Task, error)
			want []string
		}{
			"running":               {func() ([]task.Task, error) { return s.Tasks.RunningTasks(q, "") }, []string{"t2", "t3"}},
			"running in a session":  {func() ([]task.Task, error) { return s.Tasks.RunningTasks(q, "s1") }, []string{"t2"}},
			"all":                   {func() ([]task.Task, error) { return s.Tasks.Tasks(q, "", 0, "") }, []string{"t3", "t2", "t1"}},
			"of a session":          {func() ([]task.Task, error) { return s.Tasks.Tasks(q, "s1", 0, "") }, []string{"t2", "t1"}},
			"a page":                {func() ([]task.Task, error) { return s.Tasks.Tasks(q, "", 1, "t3") }, []string{"t2"}},
			"the next, of a second": {func() ([]task.Task, error) { return s.Tasks.Tasks(q, "", 9, "t2") }, []string{"t1"}},
		} {
			if got, err := c.list(); err != nil || !cmp.Equal(taskIDs(got), c.want) {
				t.Errorf("%s: %v, %v", name, taskIDs(got), err)
			}
		}
		story, err := s.Journal.Journal(q, "web:s1:m")
		if err != nil || len(story) != 1 || story[0].Kind != "task" || string(story[0].Data) != `{"taskId":"t1","kind":"command","description":"build"}` {
			t.Errorf("the story is %+v, %v", story, err)
		}
		for id, want := range map[string]string{"sub-t2": "s1", "s1": "", "": ""} {
			if payer, err := s.Tasks.PayerOf(q, id); err != nil || payer != want {
				t.Errorf("for %q pays %q, %v", id, payer, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	update(t, d, func(tx *db.Tx) error {
		if more, err := s.Tasks.TrimTasks(tx, time.UnixMilli(51)); err != nil || more {
			t.Errorf("trim: %v, %v", more, err)
		}
		if _, err := s.Tasks.Task(tx, "t1"); fault.KindOf(err) != fault.NotFound {
			t.Errorf("what is old is still there: %v", err)
		}
		if _, err := s.Tasks.Task(tx, "t2"); err != nil {
			t.Errorf("what runs is gone: %v", err)
		}
		return nil
	})
}

func second(_ task.Task, err error) error { return err }

func TestTheWorkOfARequest(t *testing.T) {
	d, err := db.Open(t.Context(), dbtest.Options(db.Options{Dir: t.TempDir(), Migrations: store.Migrations}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	s := store.New(d)
	for i, c := range []struct {
		entry session.Entry
		want  task.Progress
	}{
		{session.Entry{Kind: "queued"}, task.Progress{Amount: 1}},
		{session.Entry{Kind: "model", Step: 1, Data: map[string]any{"message": chat.Text(chat.Assistant, "I look.")}}, task.Progress{Amount: 2, Steps: 1, LastLine: "I look."}},
		{session.Entry{Kind: "tool_start", Step: 1, Data: map[string]any{"display": "grep x"}}, task.Progress{Amount: 3, Steps: 1, LastLine: "grep x"}},
		{session.Entry{Kind: "tool_end", Step: 1, Data: map[string]any{"display": "grep x, 3 lines"}}, task.Progress{Amount: 4, Steps: 1, LastLine: "grep x"}},
		{session.Entry{Kind: "model", Step: 2, Data: map[string]any{"message": chat.Text(chat.Assistant, "")}}, task.Progress{Amount: 5, Steps: 2, LastLine: "grep x"}},
	} {
		update(t, d, func(tx *db.Tx) error { return s.Journal.Record(tx, "sub:s:1", c.entry) })
		err := d.Read(context.Background(), func(q db.Queryer) error {
			if got, err := s.Journal.ProgressOf(q, "sub:s:1"); err != nil || got != c.want {
				t.Errorf("after entry %d it is %+v, %v, want %+v", i, got, err, c.want)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestASessionIsDeletedWithItsSubAgents(t *testing.T) {
	d, err := db.Open(t.Context(), dbtest.Options(db.Options{Dir: t.TempDir(), Migrations: store.Migrations}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	s := store.New(d)
	child := task.Task{ID: "t", SessionID: "s1", Kind: task.Agent, ChildSession: "sub-t", State: task.Running, CreatedAt: 2}
	update(t, d, func(tx *db.Tx) error {
		for id, client := range map[string]string{"s1": "web", "sub-t": task.Client} {
			if err := s.Sessions.CreateSession(tx, session.Session{ID: id, Client: client, CreatedAt: 1, UpdatedAt: 1}); err != nil {
				return err
			}
			for i, role := range []chat.Role{chat.User, chat.Assistant, chat.Assistant} {
				if _, err := s.History.AppendHistory(tx, id, session.HistoryMessage{ID: fmt.Sprint(id, i), RequestID: "r", Message: chat.Text(role, fmt.Sprint("word ", i))}); err != nil {
					return err
				}
			}
		}
		if list, err := s.Sessions.Sessions(tx, session.ListActive, 0, ""); err != nil || len(list) != 1 || list[0].ID != "s1" {
			t.Errorf("the list is %+v, %v", list, err)
		}
		if said, err := s.History.AnswersIn(tx, "sub-t"); err != nil || !cmp.Equal(said, []string{"word 1", "word 2"}) {
			t.Errorf("it said %q, %v", said, err)
		}
		if last, err := s.History.LastAnswer(tx, "sub-t", "r"); err != nil || last != "word 2" {
			t.Errorf("it said last %q, %v", last, err)
		}
		if last, err := s.History.LastAnswer(tx, "sub-t", "another"); err != nil || last != "" {
			t.Errorf("another request said %q, %v", last, err)
		}
		return s.Tasks.AddTask(tx, child)
	})
	update(t, d, func(tx *db.Tx) error {
		if err := s.Sessions.DeleteSession(tx, "s1"); fault.KindOf(err) != fault.Conflict {
			t.Errorf("with a task that runs: %v", err)
		}
		child.State, child.EndedAt = task.Completed, 3
		return s.Tasks.SaveTask(tx, child)
	})
	update(t, d, func(tx *db.Tx) error { return s.Sessions.DeleteSession(tx, "s1") })
	update(t, d, func(tx *db.Tx) error {
		for name, err := range map[string]error{"the session": second2(s.Sessions.Session(tx, "s1")), "the child": second2(s.Sessions.Session(tx, "sub-t")), "the task": second(s.Tasks.Task(tx, "t"))} {
			if fault.KindOf(err) != fault.NotFound {
				t.Errorf("%s is still there: %v", name, err)
			}
		}
		return nil
	})
}

func second2(_ session.Session, err error) error { return err }

// TrimTasks deletes the session of a sub-agent with its task, or alone if the task is gone.
// It keeps sessions that are too new or in use. Deleting the session that the sub-agent
// works for deletes the sub-agent's session too, regardless of its age.
func TestWhatASubAgentSaidGoesWithItsTask(t *testing.T) {
	old := time.UnixMilli(1000)
	for name, c := range map[string]struct {
		updated int64 // time of the last update of the child session, in Unix milliseconds
		use     func(s *store.Store, tx *db.Tx) error
		forgot  bool // the task was deleted before
		stays   bool
	}{
		"with its task":                         {updated: 999},
		"whose task was forgotten before":       {updated: 999, forgot: true},
		"used since":                            {updated: 1000, stays: true},
		"used since, its task forgotten before": {updated: 1000, forgot: true, stays: true},
		"in which something runs": {updated: 999, stays: true, use: func(s *store.Store, tx *db.Tx) error {
			err := s.States.SaveState(tx, "sub-t", session.State{Active: &session.Active{RequestID: "r"}})
			_, err2 := tx.Exec(`UPDATE sessions SET updated_at = 999`)
			return errors.Join(err, err2)
		}},
		"that is promised a message": {updated: 999, stays: true, use: func(s *store.Store, tx *db.Tx) error { return s.Mailbox.Accept(tx, "sub-t", "m") }},
		"in which a command runs": {updated: 999, stays: true, use: func(s *store.Store, tx *db.Tx) error {
			return s.Tasks.AddTask(tx, task.Task{ID: "own", SessionID: "sub-t", Kind: task.Command, State: task.Running})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			d, s := open(t)
			update(t, d, func(tx *db.Tx) error {
				for id, client := range map[string]string{"s1": "web", "sub-t": task.Client, "sub-mine": "web"} {
					if err := s.Sessions.CreateSession(tx, session.Session{ID: id, Client: client, CreatedAt: 1, UpdatedAt: c.updated}); err != nil {
						return err
					}
					if _, err := s.History.AppendHistory(tx, id, session.HistoryMessage{ID: "m", RequestID: id, Message: chat.Text(chat.User, "SECRETWORD")}); err != nil {
						return err
					}
				}
				if !c.forgot {
					if err := s.Tasks.AddTask(tx, task.Task{ID: "t", SessionID: "s1", Kind: task.Agent, ChildSession: "sub-t", State: task.Completed, EndedAt: 999}); err != nil {
						return err
					}
				}
				if _, err := tx.Exec(`UPDATE sessions SET updated_at = ?`, c.updated); err != nil || c.use == nil {
					return err
				}
				return c.use(s, tx)
			})
			found := func(want ...string) {
				t.Helper()
				update(t, d, func(tx *db.Tx) error {
					if err := s.History.IndexHistory(tx); err != nil {
						return err
					}
					var in []string
					hits, err := s.History.Search(tx, "SECRETWORD", 0, 0)
					for _, f := range hits {
						in = append(in, f.SessionID)
					}
					slices.Sort(in)
					if !cmp.Equal(in, want) {
						t.Errorf("it is found in %q, want %q", in, want)
					}
					return err
				})
			}
			trim := func(before time.Time) {
				t.Helper()
				update(t, d, func(tx *db.Tx) error {
					more, err := s.Tasks.TrimTasks(tx, before)
					if more {
						t.Error("there is more")
					}
					return err
				})
			}
			trim(old.Add(-time.Millisecond))
			found("s1", "sub-mine", "sub-t")
			trim(old)
			if !c.stays {
				found("s1", "sub-mine")
				return
			}
			found("s1", "sub-mine", "sub-t")
			if c.use != nil || c.forgot {
				return
			}
			update(t, d, func(tx *db.Tx) error { return s.Sessions.DeleteSession(tx, "s1") })
			found("sub-mine")
		})
	}
}

// TrimTasks deletes a bounded number of sessions per call.
func TestConversationsOfSubAgentsGoInPieces(t *testing.T) {
	const many = 50
	d, s := open(t)
	update(t, d, func(tx *db.Tx) error {
		for i := range many {
			if err := s.Sessions.CreateSession(tx, session.Session{ID: fmt.Sprint("sub-", i), Client: task.Client}); err != nil {
				return err
			}
		}
		return nil
	})
	rounds := 0
	for more := true; more && rounds < many; rounds++ {
		update(t, d, func(tx *db.Tx) (err error) {
			more, err = s.Tasks.TrimTasks(tx, time.UnixMilli(1))
			return err
		})
	}
	var left int
	update(t, d, func(tx *db.Tx) error { return tx.QueryRow(`SELECT COUNT(*) FROM sessions`).Scan(&left) })
	if left != 0 || rounds < 2 || rounds == many {
		t.Errorf("%d are left after %d rounds", left, rounds)
	}
}
