package webui_test

import (
	"fmt"

	"github.com/chromedp/chromedp"

	"lilac/internal/testkit/webuitest"
)

// gateJS lets a test hold back network calls of the page (see [shut]). It also records the events that the
// page shares with other tabs (see [heard]).
const gateJS = `window.gates = []; window.heard = []; {
	new BroadcastChannel('lilac.events').onmessage = ({ data }) => window.heard.push(...(data.frames ?? []).map(({ type }) => type));
	const real = fetch;
	window.shut = (calls, answers) => {
		const gate = { calls: new RegExp(calls), answers, held: 0 };
		gate.opened = new Promise((open) => { gate.open = open; });
		return window.gates.push(gate) - 1;
	};
	window.fetch = async (url, how) => {
		const gate = window.gates.at(-1);
		const { pathname, search } = new URL(url, document.baseURI);
		if (!gate?.calls.test((how?.method ?? 'GET') + ' ' + pathname + search)) return real(url, how);
		const answer = gate.answers ? await real(url, how) : null;
		gate.held++;
		await gate.opened;
		return answer ?? real(url, how);
	};
}`

// gate holds back network calls of a page.
type gate struct {
	p *webuitest.Tab
	n int
}

// shut holds back the calls whose method and address match, or their responses if answers is true, until
// the gate is released or another gate is shut. The page must have loaded gateJS.
func shut(p *webuitest.Tab, calls string, answers bool) gate {
	return gate{p, webuitest.Eval[int](p, fmt.Sprintf("window.shut(%q, %t)", calls, answers))}
}

// holds waits until the gate holds back n calls.
func (g gate) holds(n int) {
	g.p.Until(fmt.Sprintf("%d calls are held back", n), fmt.Sprintf("window.gates[%d].held === %d", g.n, n))
}

// release lets the held calls and all later calls through.
func (g gate) release() {
	g.p.Do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf("window.gates[%d].open()", g.n)))
}

// heard waits until the page has processed an event of this type.
func heard(p *webuitest.Tab, kind string) {
	p.Until("it has heard "+kind, fmt.Sprintf("window.heard.includes(%q)", kind))
}
