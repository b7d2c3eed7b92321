package e2e_test

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/llmtest"
	"lilac/internal/testkit/webuitest"
)

// The size of the animation: the page, and a terminal below it.
const (
	filmWidth, pageHeight, terminalHeight = 860, 500, 72
	// filmStep is the time between two pictures.
	filmStep = 150 * time.Millisecond
	// maxFilm limits the animation, so that the README loads fast.
	maxFilm = 1 << 20
	// maxFlashes within a second is what WCAG allows.
	maxFlashes = 3
)

// filmAnswer is the answer of the animation.
const filmAnswer = "The notes for 2.4 are in `release-notes.md`:\n\n" +
	"- **Search** finds every conversation, also archived ones.\n" +
	"- **Imports** continue where they stopped, after a crash as well.\n" +
	"- The **API** takes an idempotency key with each order, so that a request that is repeated is done once.\n" +
	"- Two old endpoints are gone. The notes name their successors.\n\n" +
	"I left out three changes that only developers notice. Shall I post this in *#releases*?"

// The animation of the README: the program is killed while it writes an answer, and the answer is
// completed when it runs again. With LILAC_SHOTS, the test writes it to survives.gif.
func TestTheReadmesAnimationShowsAnAnswerThatSurvivesAKill(t *testing.T) {
	effort.SkipLong(t, "The README's animation")
	t.Parallel()
	const slow = 90 * time.Millisecond
	// The first answer stops in the middle until the program is killed, however slow the machine is.
	half, _, _ := strings.Cut(filmAnswer, "with each order")
	model := llmtest.New(t, llmtest.Sequence(
		llmtest.Script{Calls: []llmtest.Call{{ID: "c1", Name: "write", Input: `{"path":"release-notes.md","content":"# 2.4\n"}`}}, Delay: slow},
		llmtest.Script{Text: llmtest.Words(half), Delay: slow, Hang: true},
		llmtest.Script{Text: llmtest.Words(filmAnswer), Delay: slow}))
	s := e2e.Start(t, modelEnv(model.URL)...)
	page := loginTo(t, s)
	page.Resize(filmWidth, pageHeight)
	page.Media(false, true)
	film := &filming{t: t, page: page, terminal: webuitest.Open(t, "about:blank", filmWidth, terminalHeight)}

	film.types("lilac serve")
	page.Say("Write release notes for 2.4")
	film.until("half of the answer is there", "("+lastAnswer+" ?? '').includes('idempotency key')")
	pid := s.PID()
	s.Kill()
	film.types(fmt.Sprintf("kill -9 %d", pid))
	film.until("the page notices", "document.getElementById('link').innerText === 'reconnecting…'")
	film.Hold(1500 * time.Millisecond)
	film.types("lilac serve")
	s.Spawn()
	film.until("the answer is complete", lastState+" === 'done' && document.getElementById('link').innerText === ''")
	film.Hold(3 * time.Second)

	if n := model.Count(); n != 3 {
		t.Errorf("the model was called %d times, want 3: the tool call is not repeated", n)
	}
	data, err := film.GIF()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes, %s, %d flashes", len(data), film.Length(), film.Flashes())
	if len(data) > maxFilm {
		t.Errorf("the animation has %d bytes, want at most %d", len(data), maxFilm)
	}
	if n := film.Flashes(); n > maxFlashes {
		t.Errorf("the animation flashes %d times in a second, want at most %d", n, maxFlashes)
	}
	if dir := os.Getenv("LILAC_SHOTS"); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, "survives.gif"), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// filming takes pictures of the page, with a terminal below that shows what happens to the process.
type filming struct {
	webuitest.Film
	t              *testing.T
	page, terminal *webuitest.Tab
	commands       string
	screen         []byte
}

// types shows another command in the terminal.
func (f *filming) types(command string) {
	f.t.Helper()
	f.commands += "$ " + command + "\n"
	webuitest.Eval[bool](f.terminal, fmt.Sprintf(`(() => {
		document.body.style = 'margin: 0; height: 100vh; overflow: hidden; background: #24202b; color: #e9e4f2; font: 15px/1.4 monospace; display: flex; flex-direction: column; justify-content: flex-end';
		document.body.innerHTML = '<pre style="margin: 0 16px 12px; font: inherit"></pre>';
		document.querySelector('pre').textContent = decodeURIComponent(%q).trim().split('\n').slice(-2).join('\n');
		return true;
	})()`, url.PathEscape(f.commands)))
	f.screen = f.terminal.Screenshot()
	f.take(filmStep)
}

func (f *filming) take(shown time.Duration) {
	f.t.Helper()
	if err := f.Add(shown, f.page.Screenshot(), f.screen); err != nil {
		f.t.Fatal(err)
	}
}

// until takes pictures until a JavaScript condition is true in the page.
func (f *filming) until(what, js string) {
	f.t.Helper()
	step := time.NewTicker(filmStep)
	defer step.Stop()
	for deadline := time.Now().Add(answerWithin); ; <-step.C {
		f.take(filmStep)
		if webuitest.Eval[bool](f.page, "Boolean("+js+")") {
			return
		}
		if time.Now().After(deadline) {
			f.t.Fatalf("not within %s: %s", answerWithin, what)
		}
	}
}
