//go:build killpoints

package app

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"lilac/internal/config"
	"lilac/internal/db"
	"lilac/internal/session"
)

// killAt is where LILAC_KILL_AT ends the process, as kill -9 would. Only test
// builds have it:
//
//	before:N, after:N   around the commit N of this process
//	record:KIND         in the transaction of a journal entry of that kind
//	recorded:KIND       after the commit of a journal entry of that kind
//	waiting             after the commit of a message that waits in its mailbox
//	answer:SUFFIX       when the first POST to a path with that suffix has done
//	                    its work and nothing of its answer has left
//	count               nowhere, but the number of commits is written to the
//	                    file "commits" in the data directory
func killAt() string { return os.Getenv("LILAC_KILL_AT") }

func kill() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // the signal is on its way
}

func onCommit(cfg *config.Config) func(done bool) {
	at := killAt()
	if at == "" {
		return nil
	}
	path := filepath.Join(cfg.DataDir, "commits")
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
			_ = writeFile(path, []byte(fmt.Sprint(n)))
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

// onStore ends the process at what the runner writes.
func onStore(s session.Store) session.Store { return &killStore{weaken(s), killAt()} }

type killStore struct {
	session.Store
	at string
}

func (s *killStore) Record(tx *db.Tx, requestID string, e session.Entry) error {
	if err := s.Store.Record(tx, requestID, e); err != nil {
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

func (s *killStore) SaveState(tx *db.Tx, sessionID string, state session.State) error {
	if err := s.Store.SaveState(tx, sessionID, state); err != nil {
		return err
	}
	if s.at == "waiting" && state.Active != nil && len(state.Active.Pending) > 0 {
		tx.AfterCommit(kill)
	}
	return nil
}
