package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/webuitest"
)

const (
	// written returns everything that a conversation shows, from top to bottom.
	written = `[...document.querySelectorAll('#transcript .words, #transcript .answer, #transcript .tool summary, #transcript .note, #outbox .words')].map(e => e.innerText.replace(/\s+/g, ' ').trim())`
	// restless reports whether the page is busy.
	restless = `!document.getElementById('running').hidden || !document.getElementById('loading').hidden || document.querySelector('#outbox .pending:not(.failed)') || document.getElementById('link').innerText !== ''`
	// unsaid returns typed text that could not be sent.
	unsaid = `JSON.stringify({ ...sessionStorage }) + document.getElementById('text').value`
)

// people is a user with two tabs who types, clicks, and reloads while the program is killed and
// restarted. The program pauses at random, as on a busy machine.
type people struct {
	t      *testing.T
	s      *e2e.Server
	rnd    *rand.Rand
	tabs   [2]*webuitest.Tab
	talks  [2]string
	up     bool
	said   []string
	unsent strings.Builder
	trace  []string
}

func (p *people) note(format string, args ...any) {
	p.trace = append(p.trace, fmt.Sprintf(format, args...))
}

func (p *people) do(n int) {
	tab := p.rnd.IntN(len(p.tabs))
	page := p.tabs[tab]
	switch what := p.rnd.IntN(20); {
	case what < 9:
		text := fmt.Sprint("number ", n)
		switch p.rnd.IntN(4) {
		case 0:
			text += fmt.Sprint(" count to ", 5+p.rnd.IntN(100))
		case 1:
			text = fmt.Sprintf("run `echo number %d; sleep 0.%d`", n, p.rnd.IntN(9))
		}
		queue := []string{"steer", "followUp", "interrupt"}[p.rnd.IntN(3)]
		before := webuitest.Eval[string](page, fmt.Sprintf(`(() => {
			const queue = document.querySelector('#modes input[value=%s]'), text = document.getElementById('text'), before = text.value;
			if (!document.getElementById('running').hidden) queue.click();
			text.value = %q;
			document.getElementById('composer').requestSubmit();
			return before;
		})()`, queue, text))
		fmt.Fprintln(&p.unsent, before)
		p.said = append(p.said, text)
		p.note("%d: %d says %q (%s)", n, tab, text, queue)
	case what < 11:
		p.show(tab, p.talks[p.rnd.IntN(len(p.talks))])
	case what < 12:
		page.Do(chromedp.Evaluate[chromedp.Void]("document.getElementById('new').click()"))
		p.note("%d: %d begins anew", n, tab)
	case what < 13:
		page.Do(chromedp.Evaluate[chromedp.Void]("document.getElementById('running').hidden || document.getElementById('stop').click()"))
		p.note("%d: %d stops", n, tab)
	case what < 14 && p.up:
		page.Do(chromedp.Reload())
		p.note("%d: %d reloads", n, tab)
	case what < 16 && p.up:
		p.s.Kill()
		p.up = false
		p.note("%d: kill", n)
	case what < 16:
		p.start()
		p.note("%d: start", n)
	default:
		time.Sleep(time.Duration(p.rnd.IntN(900)) * time.Millisecond) // simulate slow users
	}
}

func (p *people) show(tab int, talk string) {
	p.tabs[tab].To("#/s/" + talk)
	p.note("%d goes to %s", tab, talk)
}

func (p *people) start() {
	p.s.Restart()
	p.up = true
}

// rest waits until all prompts are answered and shown.
func (p *people) rest() {
	p.t.Helper()
	calm := 0
	e2e.Eventually(p.t, 2*answerWithin, "all is answered and shown", func() bool {
		calm++
		if p.s.Count("SELECT count(*) FROM requests WHERE ended_at = 0") > 0 ||
			slices.ContainsFunc(p.tabs[:], func(tab *webuitest.Tab) bool { return webuitest.Eval[bool](tab, "Boolean("+restless+")") }) {
			calm = 0
		}
		return calm > 50
	})
}

// once checks that every sent message is in the conversations once, and that text that could not
// be sent is still on the page.
func (p *people) once() {
	p.t.Helper()
	for _, tab := range p.tabs {
		fmt.Fprintln(&p.unsent, webuitest.Eval[string](tab, unsaid))
	}
	times := map[string]int{}
	var list struct{ Sessions []struct{ ID string } }
	p.s.Request("GET", "/sessions?limit=1000", nil, &list)
	for _, talk := range list.Sessions {
		for _, m := range p.s.Messages(talk.ID) {
			if m.Role == "user" {
				times[m.Text()]++
			}
		}
	}
	for _, text := range p.said {
		if n := times[text]; n > 1 || n == 0 && !strings.Contains(p.unsent.String(), text) {
			p.t.Errorf("%q is in the conversations %d times", text, n)
		}
	}
}

// same checks that a reload does not change what the page shows.
func (p *people) same(tab *webuitest.Tab) {
	p.t.Helper()
	live := webuitest.Eval[[]string](tab, written)
	tab.Do(chromedp.Reload())
	var stored []string
	defer func() {
		if p.t.Failed() {
			p.t.Logf("before the reload:\n%s\n\nafter it:\n%s", strings.Join(live, "\n"), strings.Join(stored, "\n"))
		}
	}()
	e2e.Eventually(p.t, answerWithin, "the page shows the same after a reload", func() bool {
		stored = webuitest.Eval[[]string](tab, written)
		return slices.Equal(stored, live)
	})
}

// Whatever users click and type while the program is killed and restarted: each message is
// accepted once, and the page is up to date without a reload.
func TestWhateverPeopleDoOnThePage(t *testing.T) {
	effort.SkipDetail(t)
	seeds, steps := uint64(1), 15
	if os.Getenv("LILAC_LONG") != "" {
		seeds, steps = 20, 40
	}
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		for seed := range seeds {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				p := &people{t: t, s: e2e.Start(t, append(bus(t), "LILAC_DELAYS=1")...), rnd: rand.New(rand.NewPCG(seed, 7)), up: true}
				defer func() {
					if t.Failed() {
						t.Log(strings.Join(p.trace, "\n"))
					}
				}()
				first := loginTo(t, p.s)
				p.talks = [2]string{p.s.NewSession(), p.s.NewSession()}
				p.tabs = [2]*webuitest.Tab{first, first.Another("http://" + p.s.Addr + "/#/s/" + p.talks[0])}
				p.tabs[1].Until("the other tab is there", "document.querySelector('#text')")
				p.show(0, p.talks[0])
				for n := range steps {
					p.do(n)
				}
				if !p.up {
					p.start()
				}
				p.rest()
				p.once()
				for _, tab := range p.tabs {
					p.same(tab)
				}
			})
		}
	})
}
