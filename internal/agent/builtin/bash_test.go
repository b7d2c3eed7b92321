package builtin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"lilac/internal/agent/builtin"
	"lilac/internal/agent/egress"
	"lilac/internal/agent/sandbox"
	"lilac/internal/agent/tool"
	"lilac/internal/testkit/effort"
)

// boxes runs a test in each kind of sandbox of this machine and unconfined.
func boxes(t *testing.T, test func(t *testing.T, box sandbox.Sandbox)) {
	for _, mode := range []sandbox.Mode{sandbox.ModeBubblewrap, sandbox.ModeNamespaces} {
		box, err := sandbox.Open(t.Context(), mode)
		if err == nil {
			t.Run(string(mode), func(t *testing.T) { test(t, box) })
			continue
		}
		if os.Getenv("CI") == "true" && !strings.Contains(err.Error(), "version 0 of Landlock") {
			t.Fatal(err)
		}
		t.Logf("not tested: %v", err)
	}
	t.Run("off", func(t *testing.T) { test(t, sandbox.Unconfined()) })
}

func TestBash(t *testing.T) {
	effort.SkipSlow(t)
	boxes(t, func(t *testing.T, box sandbox.Sandbox) {
		b := newBench(t, box)
		b.put("dir/f", "x")
		for name, c := range map[string]struct {
			in     args
			failed bool
			says   []string
		}{
			"both streams in order": {args{"command": "echo one; echo two >&2; echo three"}, false, []string{"one\ntwo\nthree"}},
			"where it runs":         {args{"command": "pwd; cd; pwd"}, false, []string{b.dir + "\n" + b.dir}},
			"in a directory":        {args{"command": "ls", "dir": "dir"}, false, []string{"f"}},
			"who asked":             {args{"command": "echo $LILAC_REQUEST_ID $LILAC_SESSION_ID $LILAC_REQUEST_CLIENT $LILAC_CWD"}, false, []string{"web:s:1 s web " + b.dir}},
			"nothing said":          {args{"command": "true"}, false, []string{"(no output)"}},
			"failure":               {args{"command": "echo bad; exit 3"}, true, []string{"bad", "[exit code 3]"}},
			"signal":                {args{"command": "kill -9 $$"}, true, []string{"exit code 137: killed by signal 9"}},
			"no input":              {args{"command": "cat; echo done"}, false, []string{"done"}},
			"timed out":             {args{"command": "echo begun; sleep 600", "timeout": 1}, true, []string{"begun", "timed out after 1 s"}},
			"colours":               {args{"command": `printf '\033[31mred\033[0m\n'`}, false, []string{"red"}},
			"milliseconds":          {args{"command": "true", "timeout": 120000}, true, []string{`"timeout" must be a whole number between 1 and 600`}},
			"outside":               {args{"command": "true", "dir": ".."}, true, []string{"outside the workspace"}},
			"endless command":       {args{"command": strings.Repeat("x", 200_000)}, true, []string{"write it to a file"}},
		} {
			t.Run(name, func(t *testing.T) { expect(t, b.call("bash", c.in), c.failed, c.says...) })
		}
		t.Run("long output", func(t *testing.T) {
			got := b.call("bash", args{"command": "seq 1 200000"})
			expect(t, got, false, "1\n2\n", "\n200000", ".lilac/output/call_1.txt")
			if len(got.Text) > tool.MaxBytes+500 {
				t.Errorf("%d bytes", len(got.Text))
			}
			expect(t, b.call("read", args{"path": ".lilac/output/call_1.txt", "offset": 100000, "limit": 1}), false, "100000\t100000")
		})
	})
}

func TestBashShowsItsProgress(t *testing.T) {
	boxes(t, func(t *testing.T, box sandbox.Sandbox) {
		b := newBench(t, box)
		var mu sync.Mutex
		var lines []string
		raw, _ := json.Marshal(args{"command": "echo first; while [ ! -e go ]; do sleep 0.01; done; echo; printf 'sec'; echo ond"})
		_, err := b.tools["bash"].Run(t.Context(), tool.Call{ID: "c", Input: raw, Progress: func(line string) {
			mu.Lock()
			defer mu.Unlock()
			lines = append(lines, line)
			if line == "first" { // it is shown while the command still runs
				b.put("go", "")
			}
		}})
		mu.Lock()
		defer mu.Unlock()
		if err != nil || len(lines) < 2 || lines[0] != "first" || lines[len(lines)-1] != "second" {
			t.Errorf("%q, %v", lines, err)
		}
	})
}

func TestBashStopsWithinASecond(t *testing.T) {
	boxes(t, func(t *testing.T, box sandbox.Sandbox) {
		b := newBench(t, box)
		mark := fmt.Sprintf("9%d.%d", os.Getpid(), len(box.Name()))
		wanted := errors.New("stop")
		ctx, cancel := context.WithCancelCause(t.Context())
		type ending struct {
			res tool.Result
			err error
		}
		ended := make(chan ending, 1)
		go func() {
			res, err := b.callCtx(ctx, "bash", args{"command": "echo begun; trap '' TERM; sleep " + mark + " & (sleep " + mark + "; true); wait"})
			ended <- ending{res, err}
		}()
		// That the test finds them while they run is the control.
		waitFor(t, "the processes came up", func() bool { return len(sleeping(mark)) >= 2 })
		before := time.Now()
		cancel(wanted)
		end := <-ended
		if took := time.Since(before); took > effort.Within(time.Second) {
			t.Errorf("it took %v", took)
		}
		if box.Name() == "off" { // who is told to die without a sandbox is not waited for
			waitFor(t, "the processes are gone", func() bool { return len(sleeping(mark)) == 0 })
		}
		if left := sleeping(mark); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
		if !errors.Is(end.err, wanted) || !end.res.Failed || !strings.Contains(end.res.Text, "begun") || !strings.Contains(end.res.Text, "cancelled") {
			t.Errorf("%+v", end)
		}
	})
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for until := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// sleeping finds the processes `sleep <mark>` that are not already dead.
func sleeping(mark string) []string {
	var found []string
	paths, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range paths {
		line, _ := os.ReadFile(path) // of a zombie it is empty
		if string(line) == "sleep\x00"+mark+"\x00" {
			found = append(found, path)
		}
	}
	return found
}

func TestBashRefusesWithoutASandbox(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	box, err := sandbox.Open(t.Context(), sandbox.ModeBubblewrap)
	if err == nil {
		t.Fatal("there is a sandbox without bwrap")
	}
	for name, c := range map[string]struct {
		box  sandbox.Sandbox
		says string
	}{
		"not installed": {box, "apt-get install bubblewrap"},
		"not set up":    {nil, "no sandbox was set up"},
	} {
		b := newBench(t, c.box)
		expect(t, b.call("bash", args{"command": "touch ran"}), true, c.says)
		if _, err := os.Stat(filepath.Join(b.dir, "ran")); err == nil {
			t.Errorf("%s: it ran", name)
		}
	}
}

func TestBashDoesNotSeeTheDataDirectory(t *testing.T) {
	data := t.TempDir()
	if err := os.WriteFile(filepath.Join(data, "token"), []byte("canary"), 0o644); err != nil {
		t.Fatal(err)
	}
	boxes(t, func(t *testing.T, box sandbox.Sandbox) {
		b := newBench(t, box, data)
		got := b.call("bash", args{"command": "cat " + data + "/token"})
		// Unconfined it can be read: the control.
		if seen := strings.Contains(got.Text, "canary"); seen != (box.Name() == "off") {
			t.Error(got.Text)
		}
	})
}

// A credential, a page that is not listed, and a limit, as the model sees them.
func TestBashReachesOnlyWhatIsListedAndSaysSo(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "the page "+r.URL.Path)
	}))
	defer server.Close()
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	number, _ := strconv.Atoi(port)
	boxes(t, func(t *testing.T, box sandbox.Sandbox) {
		if box.Name() == "off" {
			return // it has the whole network
		}
		proxy, err := egress.Open(egress.Options{
			Dir:   t.TempDir(),
			Rules: []egress.Rule{{Host: "a.test", Ports: []int{number}, Internal: true}},
			Resolve: func(context.Context, string) ([]netip.Addr, error) {
				return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		b := newBenchWith(t, builtin.Options{Sandbox: box, Egress: proxy, Limits: sandbox.Limits{OutputBytes: 1 << 20}})
		get := func(host string) string {
			return fmt.Sprintf(`exec 3<>/dev/tcp/127.0.0.1/3128; printf 'GET http://%s:%s/x HTTP/1.0\r\n\r\n' >&3; cat <&3`, host, port)
		}
		expect(t, b.call("bash", args{"command": get("a.test")}), false, "the page /x")
		expect(t, b.call("bash", args{"command": get("b.test")}), false, "403 Forbidden", "[network: b.test:"+port+" is not allowed]")
		expect(t, b.call("bash", args{"command": "yes"}), true, "printed more than a command may")
		if text := b.tools["bash"].Spec().Description; !strings.Contains(text, "a.test (port "+port+")") || strings.Contains(text, "{{") {
			t.Error(text)
		}
	})
}
