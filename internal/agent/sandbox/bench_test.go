package sandbox_test

import (
	"os/exec"
	"slices"
	"testing"
	"time"

	"lilac/internal/agent/sandbox"
)

// BenchmarkCommand runs the shortest command without a sandbox and in each kind of sandbox.
// The difference is the overhead of the sandbox.
func BenchmarkCommand(b *testing.B) {
	b.Run("bare", func(b *testing.B) {
		median(b, func() error { return exec.Command("/bin/true").Run() })
	})
	ws := b.TempDir()
	for _, mode := range []sandbox.Mode{sandbox.ModeBubblewrap, sandbox.ModeNamespaces} {
		b.Run(string(mode), func(b *testing.B) {
			box, err := sandbox.Open(b.Context(), mode)
			if err != nil {
				b.Skip(err)
			}
			median(b, func() error {
				_, err := box.Run(b.Context(), sandbox.Command{Argv: []string{"/bin/true"}}, sandbox.Policy{Workspace: ws})
				return err
			})
		})
	}
}

// median reports the median in addition to the mean, because other work on the machine
// distorts the mean.
func median(b *testing.B, run func() error) {
	var times []time.Duration
	for b.Loop() {
		started := time.Now()
		if err := run(); err != nil {
			b.Fatal(err)
		}
		times = append(times, time.Since(started))
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Microseconds())/1000, "ms-median")
}
