package sandbox_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"go.uber.org/goleak"

	"lilac/internal/sandbox"
)

// sleepEnv makes the test program a process that runs sleepers and is killed.
const sleepEnv = "LILAC_TEST_SLEEP"

// sayEnv makes it a client of the socket that it names.
const sayEnv = "LILAC_TEST_SAY"

// probeEnv makes it try every way out.
const probeEnv = "LILAC_TEST_PROBE"

// openEnv makes it a process that says whether it could open a sandbox.
const openEnv = "LILAC_TEST_OPEN"

func TestMain(m *testing.M) {
	sandbox.Enter()
	if mark := os.Getenv(sleepEnv); mark != "" {
		box, _ := sandbox.Open(context.Background(), sandbox.Mode(os.Getenv("LILAC_TEST_BOX")))
		_, _ = box.Run(context.Background(), sandbox.Command{Argv: []string{"bash", "-c", "sleep " + mark + " & sleep " + mark + "; true"}},
			sandbox.Policy{Workspace: os.Getenv("LILAC_TEST_WORKSPACE")})
		os.Exit(0)
	}
	if mode := os.Getenv(openEnv); mode != "" {
		if box, err := sandbox.Open(context.Background(), sandbox.Mode(mode)); err != nil {
			fmt.Println("refused:", err)
		} else {
			fmt.Println("opened:", box.Name())
		}
		os.Exit(0)
	}
	if told := os.Getenv(probeEnv); told != "" {
		runProbes(told)
		os.Exit(0)
	}
	if socket := os.Getenv(sayEnv); socket != "" {
		if err := sayTo(socket, os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func TestCommandDiesWithOurProcess(t *testing.T) {
	each(t, func(t *testing.T, box sandbox.Sandbox, confined bool) {
		{
			mark := "51" + time.Now().Format("150405.000")
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(self)
			cmd.Env = append(os.Environ(), sleepEnv+"="+mark, "LILAC_TEST_BOX="+box.Name(), "LILAC_TEST_WORKSPACE="+t.TempDir())
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			waitFor(t, "two sleepers", func() bool { return len(sleepers(mark)) == 2 })
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			if confined {
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
		}
	})
}
