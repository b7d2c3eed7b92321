package webui_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"lilac/internal/testkit/webuitest"
)

// violations runs the rules of WCAG 2.2, levels A and AA, and lists what breaks them.
const violations = `window.violations = null; axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'], resultTypes: ['violations'] })
	.then(({ violations }) => violations.flatMap((v) => v.nodes.map((n) => v.id + ': ' + n.html.slice(0, 200) + ' ' + (n.failureSummary ?? '')))).then((v) => { window.violations = v; }); 0`

// axe returns the script of axe-core, or "" if the environment does not name it.
func axe(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("LILAC_TEST_AXE")
	if dir == "" {
		return ""
	}
	script, err := os.ReadFile(filepath.Join(dir, "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	return "window.axe || " + string(script) + "; 0"
}

// broken lists what breaks the rules on the page as it is now.
func broken(p *webuitest.Tab) []string {
	p.Do(chromedp.Evaluate[chromedp.Void](violations))
	p.Until("the rules were checked", "window.violations")
	return webuitest.Eval[[]string](p, "window.violations")
}

// keepsRules checks the page in both themes.
func keepsRules(t *testing.T, p *webuitest.Tab, name string) {
	t.Helper()
	for _, dark := range []bool{false, true} {
		p.Media(dark, true)
		if bad := broken(p); len(bad) > 0 {
			t.Errorf("%s, dark %v:\n%s", name, dark, strings.Join(bad, "\n"))
		}
	}
}

// Every view, the dialogs, and a finished answer keep the rules that axe-core checks, in both themes.
func TestEveryViewIsAccessible(t *testing.T) {
	t.Parallel()
	script := axe(t)
	if script == "" {
		t.Skip("set LILAC_TEST_AXE to a directory in which npm install axe-core@4.14.1 ran")
	}
	inEveryView(t, 1100, func(p *webuitest.Tab, name string) {
		p.Do(chromedp.Evaluate[chromedp.Void](script))
		keepsRules(t, p, name)
		if name != "settings" {
			return
		}
		press(p, "?", 0)
		p.Until("the keys are shown", "document.getElementById('keys')?.open")
		keepsRules(t, p, "keys")
		p.Do(chromedp.Evaluate[chromedp.Void]("document.getElementById('keys').close()"))
		press(p, "k", 2)
		p.Until("the dialog is open", "document.getElementById('jump').open")
		keepsRules(t, p, "jump")
		p.Do(chromedp.Evaluate[chromedp.Void](`document.querySelector('#jump input').removeAttribute('aria-label'); document.querySelector('#jump input').placeholder = ''`))
		if bad := broken(p); len(bad) != 1 {
			t.Errorf("control: a field without a name is not seen: %q", bad)
		}
	})
}
