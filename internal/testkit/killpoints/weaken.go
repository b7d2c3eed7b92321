package killpoints

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"

	"lilac/internal/agent/tool"
	"lilac/internal/core/session"
	"lilac/internal/core/task"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

// without reports whether LILAC_WITHOUT, a comma-separated list, disables a safeguard. Only test
// builds read it: a test that passes without the safeguard proves nothing about it.
//
//	recovery   nothing is resumed at startup
//	journal    the steps of a run are lost when the process ends
//	mailbox    queued messages are lost when the process ends
//	telling    the end of a background task is published after its own transaction
//	           instead of within it
//	inbox      events that were already accepted are accepted again
//	group      a cancellation kills only the command's first process
//	position   the position of a gateway and its channels is lost when the process ends
//	relays     the state of relays is lost when the process ends
//	reconcile  messages that may have been sent are sent again, with another nonce
//	orders     the actions of buttons are lost when the process ends
//	expiry     outgoing messages never expire
//	grants     requests may use every tool
func without(protection string) bool {
	return slices.Contains(strings.Split(os.Getenv("LILAC_WITHOUT"), ","), protection)
}

func weaken(t session.Tables) session.Tables {
	ours := &ownMessages{ids: map[string]bool{}}
	t.States = &weakStates{t.States, ours}
	t.Mailbox = &weakMailbox{t.Mailbox, ours}
	t.Journal = weakJournal{t.Journal}
	return t
}

// ownMessages holds the messages that this process put into a mailbox.
type ownMessages struct {
	mu  sync.Mutex
	ids map[string]bool
}

type weakStates struct {
	session.StateTable
	ours *ownMessages
}

func (s *weakStates) Unfinished(q db.Queryer) ([]string, error) {
	if without("recovery") {
		return nil, nil
	}
	return s.StateTable.Unfinished(q)
}

func (s *weakStates) State(q db.Queryer, sessionID string) (session.State, error) {
	state, err := s.StateTable.State(q, sessionID)
	if without("mailbox") && state.Active != nil {
		s.ours.mu.Lock()
		defer s.ours.mu.Unlock()
		state.Active.Pending = slices.DeleteFunc(state.Active.Pending, func(p session.PendingMessage) bool { return !s.ours.ids[p.MessageID] })
	}
	return state, err
}

type weakMailbox struct {
	session.MailboxTable
	ours *ownMessages
}

func (s *weakMailbox) PutMail(tx *db.Tx, m session.Mail) (bool, error) {
	s.ours.mu.Lock()
	s.ours.ids[m.MessageID] = true
	s.ours.mu.Unlock()
	return s.MailboxTable.PutMail(tx, m)
}

type weakJournal struct{ session.JournalTable }

func (s weakJournal) Journal(q db.Queryer, requestID string) ([]session.StoryEntry, error) {
	entries, err := s.JournalTable.Journal(q, requestID)
	if without("journal") {
		entries = slices.DeleteFunc(entries, func(e session.StoryEntry) bool {
			return slices.Contains([]string{"model", "tool_start", "tool_end"}, e.Kind)
		})
	}
	for i, e := range entries {
		if without("grants") && (e.Kind == "started" || e.Kind == "input") {
			var fields map[string]json.RawMessage
			if len(e.Data) == 0 || json.Unmarshal(e.Data, &fields) != nil {
				continue
			}
			delete(fields, "grant")
			if entries[i].Data, err = json.Marshal(fields); err != nil {
				return nil, err
			}
		}
	}
	return entries, err
}

// onTold publishes the end of tasks in a separate transaction if "telling" is disabled.
func onTold(d *db.DB, tell task.Publish) task.Publish {
	if !without("telling") {
		return tell
	}
	return func(tx *db.Tx, e event.EnvEvent) error {
		tx.AfterCommit(func() {
			go func() {
				_ = d.Update(context.Background(), func(tx *db.Tx) error { return tell(tx, e) })
			}()
		})
		return nil
	}
}

// onRecovery does not recover lost tasks at startup if "recovery" is disabled.
func onRecovery(recover func(context.Context) error) func(context.Context) error {
	if without("recovery") {
		return func(context.Context) error { return nil }
	}
	return recover
}

func weakenTools(tools []tool.Tool) []tool.Tool {
	if !without("group") {
		return tools
	}
	for i, t := range tools {
		if t.Spec().Name == "bash" {
			tools[i] = weakBash{t}
		}
	}
	return tools
}

// weakBash runs a command without a process group, so that a cancellation kills only the first
// process.
type weakBash struct{ tool.Tool }

func (b weakBash) Run(ctx context.Context, call tool.Call) (tool.Result, error) {
	var in struct{ Command string }
	if err := json.Unmarshal(call.Input, &in); err != nil {
		return tool.Result{}, fault.Wrap(fault.Invalid, err, "The input is not JSON.")
	}
	if err := exec.CommandContext(ctx, "bash", "-c", in.Command).Run(); err != nil && ctx.Err() != nil {
		return tool.Result{}, context.Cause(ctx)
	}
	return tool.Result{Text: "done"}, nil
}
