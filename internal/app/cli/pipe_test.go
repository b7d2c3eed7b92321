package cli

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The test binary runs "lilac serve" itself when this variable is set; with
// "control", SIGPIPE keeps its default effect, and with "blocking", logging waits for
// the reader of the log.
const servePipe = "LILAC_TEST_SERVE_PIPE"

func TestMain(m *testing.M) {
	if mode := os.Getenv(servePipe); mode != "" {
		if mode == "control" {
			go func() {
				for range time.Tick(time.Millisecond) {
					signal.Reset(syscall.SIGPIPE)
				}
			}()
		}
		c := &cli{in: os.Stdin, printer: printer{out: os.Stdout, err: os.Stderr, blockingLog: mode == "blocking"}, locator: locator{getenv: os.Getenv}}
		os.Exit(c.run(context.Background(), []string{"serve", "--addr", "127.0.0.1:0", "--log-level", "debug"}))
	}
	os.Exit(m.Run())
}

// serveWithoutReader starts a server, ends the reader of its log, and makes the
// server log. It returns the error that the process ended with, if it ended.
func serveWithoutReader(t *testing.T, mode string) (alive bool, lost bool) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	home := t.TempDir()
	cmd.Env = []string{servePipe + "=" + mode, "HOME=" + home, "PATH=" + os.Getenv("PATH"), "LILAC_METRICS_TOKEN=0123456789abcdef0123456789abcdef"}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = write
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	write.Close()
	ended := make(chan error, 1)
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	go func() { ended <- cmd.Wait() }()
	if err != nil {
		t.Fatalf("no login link: %v", err)
	}
	_, link, _ := strings.Cut(line, "http://")
	addr, _, _ := strings.Cut(link, "/")
	if err := read.Close(); err != nil { // the reader of the log ends
		t.Fatal(err)
	}
	deadline := time.Now().Add(20 * time.Second)
	for time.Now().Before(deadline) {
		// A reload is logged.
		_ = cmd.Process.Signal(syscall.SIGHUP)
		select {
		case err := <-ended:
			ended <- err
			var exit *exec.ExitError
			if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGPIPE {
				t.Errorf("the server ended with %v", err)
			}
			return false, false
		case <-time.After(50 * time.Millisecond):
		}
		r, err := http.NewRequest("GET", "http://"+addr+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer 0123456789abcdef0123456789abcdef")
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			continue // it is ending
		}
		scan := bufio.NewScanner(res.Body)
		for scan.Scan() {
			if name, n, _ := strings.Cut(scan.Text(), " "); name == "lilac_log_lines_lost_total" && n != "0" {
				lost = true
			}
		}
		res.Body.Close()
		if lost {
			return true, true
		}
	}
	return true, false
}

func TestServerSurvivesABrokenLogPipe(t *testing.T) {
	if alive, lost := serveWithoutReader(t, "serve"); !alive || !lost {
		t.Errorf("alive %t, lost lines counted %t, want both", alive, lost)
	}
}

// Control: without the handling of SIGPIPE, the server ends.
func TestServerSurvivesABrokenLogPipeControl(t *testing.T) {
	if alive, _ := serveWithoutReader(t, "control"); alive {
		t.Error("the server survives SIGPIPE without handling it: the test shows nothing")
	}
}
