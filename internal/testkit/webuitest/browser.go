package webuitest

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"lilac/internal/testkit/effort"
)

// shared is the browser that the tests of a package share, if [Main] runs them.
var shared browser

// browser is a Chromium that the first test starts.
type browser struct {
	on   bool
	ctx  context.Context
	stop func()
}

// Main runs the tests of a package with one shared browser, because starting one takes
// longer than most tests. Each test has its own storage.
func Main(m *testing.M) int {
	effort.SkipWholeProgram()
	shared.on = true
	defer func() {
		if shared.stop != nil {
			shared.stop()
		}
	}()
	return m.Run()
}

// context returns the parent context of tabs.
func (b *browser) context(t *testing.T) context.Context {
	t.Helper()
	if b.ctx != nil {
		return b.ctx
	}
	ctx, stop, err := start(chromium(t))
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

// start starts a Chromium; stop ends it and removes its profile.
func start(path string) (ctx context.Context, stop func(), err error) {
	// Processes of the browser may write to the profile for a moment after the browser
	// has ended, so it is removed later.
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
		// The language of the browser determines the format of numbers and dates.
		chromedp.Flag("lang", "en-US"))
	ctx, cancel := chromedp.NewContext(ctx)
	stop = func() {
		cancel()
		end()
		for deadline := time.Now().Add(within); os.RemoveAll(profile) != nil && time.Now().Before(deadline); {
			time.Sleep(20 * time.Millisecond)
		}
	}
	if err := chromedp.Do(ctx, chromedp.Navigate("about:blank")); err != nil {
		stop()
		return nil, nil, err
	}
	return ctx, stop, nil
}

// chromium returns the path of the browser, or ends the test with an instruction to
// install it.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			return found
		}
	}
	const hint = "Chromium is needed to test the page: apt-get install chromium"
	if os.Getenv("CI") == "true" {
		t.Fatal(hint)
	}
	t.Skip(hint)
	return ""
}
