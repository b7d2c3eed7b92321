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
)

// killAt is where LILAC_KILL_AT ends the process, as kill -9 would. Only test
// builds have it:
//
//	before:N, after:N   around the commit N of this process
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
