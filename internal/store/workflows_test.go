package store_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"lilac/internal/core/session"
	"lilac/internal/core/task"
	"lilac/internal/core/workflow"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
)

// DeleteSession deletes the workflows and waits of the session and of its sub-agents. The
// workflows of other sessions stay.
func TestASessionIsDeletedWithWhatItWaitsFor(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	d, s := openAt(t, &now)
	of := func(id, session string, due int64) workflow.Workflow {
		return workflow.Workflow{
			ID: id, State: workflow.Waiting, Origin: workflow.Origin{SessionID: session}, CreatedAt: 1,
			Tasks: []workflow.Task{
				{ID: "t1", State: workflow.Waiting, Due: due, Wait: workflow.Wait{Kind: workflow.ForMessage, ChannelID: "place"}},
				{ID: "t2", State: workflow.Resolved, Wait: workflow.Wait{Kind: workflow.ForReply, Platform: "discord", ChannelID: "10", MessageID: "7"}},
			},
		}
	}
	ended := of("ended", "s", 0)
	ended.State, ended.EndedAt = workflow.Resolved, 2
	update(t, d, func(tx *db.Tx) error {
		err := s.Tasks.AddTask(tx, task.Task{ID: "t", SessionID: "s", Kind: task.Agent, ChildSession: "sub-t", State: task.Completed, CreatedAt: 1, EndedAt: 2})
		for _, id := range []string{"s", "sub-t", "other"} {
			err = errors.Join(err, s.Sessions.CreateSession(tx, session.Session{ID: id, Client: "web"}))
		}
		for _, w := range []workflow.Workflow{of("waits", "s", 5), of("damaged", "s", 6), ended, of("subs", "sub-t", 7), of("others", "other", 8)} {
			err = errors.Join(err, s.Workflows.SaveWorkflow(tx, w))
		}
		_, damage := tx.Exec(`UPDATE workflows SET checksum = checksum + 1 WHERE id = 'damaged'`)
		return errors.Join(err, damage, s.Sessions.DeleteSession(tx, "s"))
	})
	update(t, d, func(tx *db.Tx) error {
		for _, id := range []string{"waits", "damaged", "ended", "subs"} {
			if _, err := s.Workflows.Workflow(tx, id); fault.KindOf(err) != fault.NotFound {
				t.Errorf("%s is still there: %v", id, err)
			}
		}
		if _, err := s.Workflows.Workflow(tx, "others"); err != nil {
			t.Error("of another conversation:", err)
		}
		due, err := s.Workflows.NextDue(tx)
		if due != 8 || err != nil {
			t.Errorf("due next is %d, %v", due, err)
		}
		for name, ids := range map[string]func() ([]string, error){
			"a message": func() ([]string, error) { return s.WorkflowWaits.WaitingForMessage(tx, "place") },
			"a reply":   func() ([]string, error) { return s.WorkflowWaits.WhoseReply(tx, "discord", "10", "7") },
		} {
			if got, err := ids(); err != nil || !slices.Equal(got, []string{"others"}) {
				t.Errorf("for %s wait %q, %v", name, got, err)
			}
		}
		return nil
	})
}
