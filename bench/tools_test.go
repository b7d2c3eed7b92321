package bench

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"lilac/internal/testkit/e2e"
)

// BenchmarkTools measures the run time of the command "tools" as in a sandbox, where it is the
// whole program under another name: once without and once with a call to the server. The target
// for its start is 15 ms.
func BenchmarkTools(b *testing.B) {
	s := e2e.Start(b)
	tools := filepath.Join(b.TempDir(), "tools")
	if err := os.Symlink(e2e.Binary(b), tools); err != nil {
		b.Fatal(err)
	}
	env := []string{"LILAC_DATA_DIR=" + filepath.Join(s.Dir, "data"), "HOME=" + s.Dir, "LILAC_TOKEN=" + e2e.Token}
	made := exec.Command(e2e.Binary(b), "tools", "token", "create", "bench", "--allow", "*")
	made.Env = env
	token, err := made.Output()
	if err != nil {
		b.Fatal(err)
	}
	env = append(env, "LILAC_TOOL_TOKEN="+string(token[:len(token)-1]))
	for name, args := range map[string][]string{"start": {"--help"}, "call": {"surface.sessions.list"}} {
		b.Run(name, func(b *testing.B) {
			var all []time.Duration
			for b.Loop() {
				cmd := exec.Command(tools, args...)
				cmd.Env = env
				began := time.Now()
				if out, err := cmd.CombinedOutput(); err != nil {
					b.Fatalf("%v: %s", err, out)
				}
				all = append(all, time.Since(began))
			}
			micros(b, quantile(all, 0.5), "p50-us")
			micros(b, quantile(all, 0.95), "p95-us")
		})
	}
}
