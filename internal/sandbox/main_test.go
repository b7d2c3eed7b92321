package sandbox_test

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"go.uber.org/goleak"

	"lilac/internal/sandbox"
)

// sleepEnv makes the test program a process that runs sleepers and is killed.
const sleepEnv = "LILAC_TEST_SLEEP"

func TestMain(m *testing.M) {
	if mark := os.Getenv(sleepEnv); mark != "" {
		box := sandbox.Unconfined()
		if os.Getenv("LILAC_TEST_BOX") != "off" {
			box, _ = sandbox.Open(context.Background(), sandbox.ModeAuto)
		}
		_, _ = box.Run(context.Background(), sandbox.Command{Argv: []string{"bash", "-c", "sleep " + mark + " & sleep " + mark + "; true"}},
			sandbox.Policy{Workspace: os.Getenv("LILAC_TEST_WORKSPACE")})
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func TestCommandDiesWithOurProcess(t *testing.T) {
	bwrap(t)
	for name, c := range map[string]struct{ box, mark string }{
		"sandbox": {"auto", "51"}, "control": {"off", "52"},
	} {
		t.Run(name, func(t *testing.T) {
			mark := c.mark + time.Now().Format("150405.000")
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(self)
			cmd.Env = append(os.Environ(), sleepEnv+"="+mark, "LILAC_TEST_BOX="+c.box, "LILAC_TEST_WORKSPACE="+t.TempDir())
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			waitFor(t, "two sleepers", func() bool { return len(sleepers(mark)) == 2 })
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			if c.box == "auto" {
				waitFor(t, "the end of the sleepers", func() bool { return len(sleepers(mark)) == 0 })
				return
			}
			// Unconfined, only the shell is tied to us: what it started stays.
			left := sleepers(mark)
			if len(left) == 0 {
				t.Error("the control leaves nothing, so the test shows nothing")
			}
			for _, pid := range left {
				if p, err := os.FindProcess(pid); err == nil {
					_ = p.Kill()
				}
			}
		})
	}
}
