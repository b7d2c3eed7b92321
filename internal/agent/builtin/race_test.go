package builtin_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lilac/internal/agent/tool"
	"lilac/internal/testkit/effort"
)

// raceTime is how long the races run: 30 s in the long form.
func raceTime() time.Duration {
	if os.Getenv("LILAC_LONG") != "" {
		return 30 * time.Second
	}
	return time.Second
}

// TestRacingLinksDoNotLeadOut swaps what a path names between a file of the
// workspace and a link out of it while the tools use it.
func TestRacingLinksDoNotLeadOut(t *testing.T) {
	effort.SkipSlow(t)
	const secret = "canary-of-another-place"
	b := newBench(t, nil)
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "f"), []byte(secret), 0o644); err != nil {
		t.Fatal(err)
	}
	b.put("d/f", "inside")
	// "d" is a directory in one moment and a link out in the next.
	d, bad := filepath.Join(b.dir, "d"), filepath.Join(b.dir, "bad")
	if err := os.Symlink(outside, bad); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			_ = unix.Renameat2(unix.AT_FDCWD, d, unix.AT_FDCWD, bad, unix.RENAME_EXCHANGE)
		}
	})
	naive, good := 0, 0
	// On a busy machine the two seldom meet: then they go on for longer.
	began := time.Now()
	for time.Since(began) < raceTime() || (naive == 0 || good == 0) && time.Since(began) < time.Minute {
		for _, got := range []tool.Result{
			b.call("read", args{"path": "d/f"}),
			b.call("grep", args{"pattern": ".", "path": "d"}),
			b.call("edit", args{"path": "d/f", "old_string": secret, "new_string": "gone"}),
			b.call("write", args{"path": "d/g", "content": "x"}),
		} {
			if strings.Contains(got.Text, secret) && !strings.Contains(got.Text, "Error") {
				t.Fatalf("it got out: %s", got.Text)
			}
			if !got.Failed {
				good++
			}
		}
		// The control: look first, then open.
		for range 50 {
			real, err := filepath.EvalSymlinks(d)
			if err != nil || !strings.HasPrefix(real, b.dir) {
				continue
			}
			if data, err := os.ReadFile(filepath.Join(d, "f")); err == nil && string(data) == secret {
				naive++
			}
		}
	}
	close(stop)
	wg.Wait()
	if entries, err := os.ReadDir(outside); err != nil || len(entries) != 1 {
		t.Errorf("outside there is now %v, %v", entries, err)
	}
	if data, _ := os.ReadFile(filepath.Join(outside, "f")); string(data) != secret {
		t.Errorf("the file outside was changed: %q", data)
	}
	if naive == 0 || good == 0 {
		t.Errorf("the race proves nothing: %d escapes of the control, %d good calls", naive, good)
	}
	t.Logf("%d escapes of the control, %d good calls", naive, good)
}

func TestLinksOutAreRefused(t *testing.T) {
	b := newBench(t, nil)
	outside := t.TempDir()
	secret := filepath.Join(outside, "f")
	if err := os.WriteFile(secret, []byte("canary"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(b.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"abs": secret, "dir": outside, "rel": "../../" + filepath.Base(outside) + "/f", "new": filepath.Join(outside, "made")} {
		if err := os.Symlink(target, filepath.Join(b.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"abs", "dir/f", "rel", "new", "dir/made"} {
		for name, in := range map[string]args{
			"read":  {"path": path},
			"write": {"path": path, "content": "x"},
			"edit":  {"path": path, "old_string": "canary", "new_string": "x"},
			"grep":  {"pattern": "canary", "path": path},
		} {
			got := b.call(name, in)
			expect(t, got, true)
			if strings.HasSuffix(got.Text, "canary") {
				t.Errorf("%s %s: %s", name, path, got.Text)
			}
		}
	}
	if got := b.call("grep", args{"pattern": "canary"}); !strings.Contains(got.Text, "no match") {
		t.Errorf("grep followed a link: %s", got.Text)
	}
	if data, err := os.ReadFile(secret); err != nil || string(data) != "canary" {
		t.Errorf("changed outside: %q, %v", data, err)
	}
	if _, err := os.Stat(filepath.Join(outside, "made")); err == nil {
		t.Error("made outside")
	}
}
