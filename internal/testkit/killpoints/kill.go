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

// killAt returns the value of LILAC_KILL_AT, which names the point at which the process kills
// itself, like kill -9. Only test builds read it:
//
//	before:N, after:N   before or after commit N of this process
//	record:KIND         in the transaction of a journal entry of that kind
//	recorded:KIND       after the commit of a journal entry of that kind
//	task:STATE          in the transaction that creates or ends a background task
//	tasked:STATE        after the commit of that transaction
//	taking:PREFIX       in the transaction of a source's event whose ID has the prefix
//	taken:PREFIX        after the commit of such an event
//	waiting             after the commit of a message that is queued in its mailbox
//	answer:SUFFIX       when the first POST to a path with that suffix was handled,
//	                    before any byte of its response is sent
//	count               never kills; writes the number of commits to the file
//	                    "commits" in the data directory
//
// POINT@N means the Nth time that this process reaches the point.
func killAt() string {
	at, _, _ := strings.Cut(os.Getenv("LILAC_KILL_AT"), "@")
	return at
}

// reached counts how often the process has reached its point.
var reached atomic.Int64

// kill kills the process if it has reached its point often enough.
func kill() {
	_, times, _ := strings.Cut(os.Getenv("LILAC_KILL_AT"), "@")
	if n, _ := strconv.ParseInt(times, 10, 64); reached.Add(1) < n {
		return // without @N, the first time counts
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // wait for the signal
}

func onCommit(dataDir string) func(done bool) {
	at := killAt()
	if at == "" && !delaying() {
		return nil
	}
	path := filepath.Join(dataDir, "commits")
	n := 0
	return func(done bool) {
		if delaying() {
			pause()
		}
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
	h = delayed(h)
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

// An unanswered response kills the process at the first write.
type unanswered struct{ http.ResponseWriter }

func (unanswered) WriteHeader(int)           { kill() }
func (unanswered) Write([]byte) (int, error) { kill(); return 0, nil }

// onRunnerTables adds the points in the runner's transactions.
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

// onTasks adds the points in the transactions of background tasks.
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

// onInbox adds the points in the transactions of the sources' events.
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

// writeCount replaces the file atomically, because a test may read it at any time.
func writeCount(path string, n int) error {
	temp := path + ".new"
	if err := os.WriteFile(temp, []byte(fmt.Sprint(n)), 0o600); err != nil {
		return err
	}
	return os.Rename(temp, path)
}
