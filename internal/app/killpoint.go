//go:build killpoints

package app

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"lilac/internal/config"
)

// onCommit ends the process, as kill -9 would, at the commit that LILAC_KILL_AT
// names: "before:N" or "after:N". "count" only writes the number of commits to
// the file "commits" in the data directory. Only test builds have it.
func onCommit(cfg *config.Config) func(done bool) {
	at := os.Getenv("LILAC_KILL_AT")
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
		if at == "count" {
			if done {
				_ = writeFile(path, []byte(fmt.Sprint(n)))
			}
			return
		}
		if at == stage+":"+fmt.Sprint(n) {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // the signal is on its way
		}
	}
}
