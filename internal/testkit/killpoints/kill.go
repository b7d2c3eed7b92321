package killpoints

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"lilac/internal/core/environment"
	"lilac/internal/core/session"
	"lilac/internal/core/task"
	"lilac/internal/engine/db"
)

// killAt is where LILAC_KILL_AT ends the process, as kill -9 would. Only test
// builds have it:
//
//	before:N, after:N   around the commit N of this process
//	record:KIND         in the transaction of a journal entry of that kind
//	recorded:KIND       after the commit of a journal entry of that kind
//	task:STATE          in the transaction that makes or ends a background task
//	tasked:STATE        after the commit of that
//	taking:PREFIX       in the transaction of an event of a source whose id begins so
//	taken:PREFIX        after the commit of such an event
//	waiting             after the commit of a message that waits in its mailbox
//	answer:SUFFIX       when the first POST to a path with that suffix has done
//	                    its work and nothing of its answer has left
//	count               nowhere, but the number of commits is written to the
//	                    file "commits" in the data directory
//
// POINT@N is the Nth time that this process comes to the point.
func killAt() string {
	at, _, _ := strings.Cut(os.Getenv("LILAC_KILL_AT"), "@")
	return at
}

// reached counts how often the process has come to its point.
var reached atomic.Int64

// kill ends the process, which has come to its point, if it was often enough.
func kill() {
	_, times, _ := strings.Cut(os.Getenv("LILAC_KILL_AT"), "@")
	if n, _ := strconv.ParseInt(times, 10, 64); reached.Add(1) < n {
		return // without a number it is the first time
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // the signal is on its way
}

func onCommit(dataDir string) func(done bool) {
	at := killAt()
	if at == "" {
		return nil
	}
	path := filepath.Join(dataDir, "commits")
	n := 0
	return func(done bool) {
		stage := "before"
		if done {
			stage = "after"
		} else {
			n++
		}
		switch {
		case at == "count" && done:
			_ = writeCount(path, n)
		case at == fmt.Sprintf("%s:%d", stage, n):
			kill()
		}
	}
}

func onAnswer(h http.Handler) http.Handler {
	suffix, ok := strings.CutPrefix(killAt(), "answer:")
	if !ok {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, suffix) {
			w = unanswered{w}
		}
		h.ServeHTTP(w, r)
	})
}

// unanswered ends the process instead of answering.
type unanswered struct{ http.ResponseWriter }

func (unanswered) WriteHeader(int)           { kill() }
func (unanswered) Write([]byte) (int, error) { kill(); return 0, nil }

// onRunnerTables ends the process at what the runner writes.
func onRunnerTables(t session.Tables) session.Tables {
	t = weaken(t)
	t.Journal = &killJournal{t.Journal, killAt()}
	t.States = &killStates{t.States, killAt()}
	return t
}

type killJournal struct {
	session.JournalTable
	at string
}

func (s *killJournal) Record(tx *db.Tx, requestID string, e session.Entry) error {
	if err := s.JournalTable.Record(tx, requestID, e); err != nil {
		return err
	}
	switch s.at {
	case "record:" + e.Kind:
		kill()
	case "recorded:" + e.Kind:
		tx.AfterCommit(kill)
	}
	return nil
}

type killStates struct {
	session.StateTable
	at string
}

func (s *killStates) SaveState(tx *db.Tx, sessionID string, state session.State) error {
	if err := s.StateTable.SaveState(tx, sessionID, state); err != nil {
		return err
	}
	if s.at == "waiting" && state.Active != nil && len(state.Active.Pending) > 0 {
		tx.AfterCommit(kill)
	}
	return nil
}

// onTasks ends the process at what is written of background tasks.
func onTasks(s task.Store) task.Store { return &killTasks{s, killAt()} }

type killTasks struct {
	task.Store
	at string
}

func (s *killTasks) AddTask(tx *db.Tx, t task.Task) error {
	return s.reached(tx, t, s.Store.AddTask(tx, t))
}

func (s *killTasks) SaveTask(tx *db.Tx, t task.Task) error {
	return s.reached(tx, t, s.Store.SaveTask(tx, t))
}

func (s *killTasks) reached(tx *db.Tx, t task.Task, err error) error {
	switch {
	case err != nil:
		return err
	case s.at == "task:"+string(t.State):
		kill()
	case s.at == "tasked:"+string(t.State):
		tx.AfterCommit(kill)
	}
	return nil
}

// onInbox ends the process at what sources publish.
func onInbox(i environment.Inbox) environment.Inbox { return killInbox{i, killAt()} }

type killInbox struct {
	environment.Inbox
	at string
}

func (i killInbox) Seen(tx *db.Tx, source, id string, value []byte) ([]byte, bool, error) {
	if without("inbox") {
		return nil, false, nil
	}
	prior, seen, err := i.Inbox.Seen(tx, source, id, value)
	if err != nil || seen || source != environment.Source {
		return prior, seen, err
	}
	if prefix, ok := strings.CutPrefix(i.at, "taking:"); ok && strings.HasPrefix(id, prefix) {
		kill()
	}
	if prefix, ok := strings.CutPrefix(i.at, "taken:"); ok && strings.HasPrefix(id, prefix) {
		tx.AfterCommit(kill)
	}
	return prior, seen, nil
}

// writeCount replaces the file at once, because a test reads it at any time.
func writeCount(path string, n int) error {
	temp := path + ".new"
	if err := os.WriteFile(temp, []byte(fmt.Sprint(n)), 0o600); err != nil {
		return err
	}
	return os.Rename(temp, path)
}
