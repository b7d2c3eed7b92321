package webuitest

import (
	"context"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"lilac/internal/testkit/effort"
)

// shared is the browser that the tests of a package share after [Share].
var shared browser

// atATime is the number of tests of a package that run at the same time. Many tests wait
// for a timer of the page, so it is more than the number of processors.
const atATime = 4

// browser is a Chromium that the first test starts.
type browser struct {
	on bool

	mu   sync.Mutex
	ctx  context.Context
	stop func()
}

// Main runs the tests of a package with one shared browser, because starting one takes
// longer than most tests. Each test has its own storage, so tests can run in parallel.
func Main(m *testing.M) int {
	effort.SkipWholeProgram()
	effort.SideBySide(atATime)
	defer Share()()
	return m.Run()
}

// Share lets the tests of a package share one browser. TestMain calls Share before the tests run, and
// end after them.
func Share() (end func()) {
	shared.on = true
	return func() {
		if shared.stop != nil {
			shared.stop()
		}
	}
}

// context returns the parent context of tabs.
func (b *browser) context(t *testing.T) context.Context {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ctx != nil {
		return b.ctx
	}
	ctx, stop, err := startRetrying(t, chromium(t))
	if err != nil {
		t.Fatal(err)
	}
	if !b.on {
		t.Cleanup(stop)
		return ctx
	}
	b.ctx, b.stop = ctx, stop
	return ctx
}

// maxStarts is the maximum number of attempts to start Chromium. It sometimes crashes while it starts,
// with a general protection fault in its own thread pool.
const maxStarts = 3

func startRetrying(t *testing.T, path string) (ctx context.Context, stop func(), err error) {
	for range maxStarts {
		if ctx, stop, err = start(path); err == nil {
			break
		}
		t.Logf("Chromium does not start: %v", err)
	}
	return ctx, stop, err
}

// start starts a Chromium; stop ends it and removes its profile.
func start(path string) (ctx context.Context, stop func(), err error) {
	profile, err := os.MkdirTemp("", "lilac-chromium-")
	if err != nil {
		return nil, nil, err
	}
	ctx, end := chromedp.NewExecAllocator(context.Background(),
		chromedp.ExecPath(path), chromedp.UserDataDir(profile),
		chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.Flag("disable-dev-shm-usage", true),
		// There is no GPU; a process for it only takes time.
		chromedp.Flag("in-process-gpu", true),
		// The language of the browser determines the format of numbers and dates.
		chromedp.Flag("lang", "en-US"))
	ctx, cancel := chromedp.NewContext(ctx)
	stop = func() {
		cancel()
		end()
		removeProfile(profile)
	}
	if err := chromedp.Do(ctx, chromedp.Navigate("about:blank")); err != nil {
		stop()
		return nil, nil, err
	}
	return ctx, stop, nil
}

// removeProfile removes the profile of a browser that has ended. Its processes may write there for a
// moment longer.
func removeProfile(profile string) {
	for deadline := time.Now().Add(within); os.RemoveAll(profile) != nil && time.Now().Before(deadline); {
		time.Sleep(20 * time.Millisecond)
	}
}

// browsers are the programs that can run the tests, the best one first. The headless
// shell has Chromium's engine without its windows, and opens a tab in a third of the
// time. Debian's command for it is a script that leaves the browser running when it is
// killed, so it is started without the script.
var browsers = []string{"/usr/lib/chromium/chromium-headless-shell", "chrome-headless-shell", "chromium", "chromium-browser", "google-chrome"}

// chromium returns the path of the browser, or ends the test with an instruction to
// install it.
func chromium(t *testing.T) string {
	t.Helper()
	return installed(t, browsers, "Chromium is needed to test the page: apt-get install chromium-headless-shell")
}

// installed returns the path of the first program that is there. Without any, the test is skipped
// with the hint, and fails in CI.
func installed(t *testing.T, names []string, hint string) string {
	t.Helper()
	for _, name := range names {
		if found, err := exec.LookPath(name); err == nil {
			return found
		}
	}
	if os.Getenv("CI") == "true" {
		t.Fatal(hint)
	}
	t.Skip(hint)
	return ""
}
