package webuitest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// needNames are the roles of what a person can use; a screen reader says them
// by their names.
var needNames = []string{"button", "link", "textbox", "searchbox", "combobox", "checkbox", "radio", "dialog", "navigation", "region", "img"}

// Nameless lists what of the page a screen reader could not name, out of the
// tree that the browser gives it, and how much it looked at.
func (p *Tab) Nameless() (bad []string, looked int) {
	p.t.Helper()
	var nodes []*accessibility.Node
	p.Do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		tree, err := cdp.Call(ctx, t, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
		nodes = tree.Nodes
		return err
	}))
	text := func(v *accessibility.Value) (s string) {
		if v != nil {
			_ = json.Unmarshal([]byte(v.Value), &s)
		}
		return strings.TrimSpace(s)
	}
	for _, n := range nodes {
		role := text(n.Role)
		if n.Ignored || !slices.Contains(needNames, role) {
			continue
		}
		looked++
		if text(n.Name) == "" {
			bad = append(bad, fmt.Sprintf("%s (node %d)", role, n.BackendDOMNodeID))
		}
	}
	return bad, looked
}

// Faint lists texts that can be seen and whose contrast with what is behind
// them is below a ratio, and says how many texts it looked at.
func (p *Tab) Faint(ratio float64) (bad []string, looked int) {
	p.t.Helper()
	out := Eval[struct {
		Bad    []string `json:"bad"`
		Looked int      `json:"looked"`
	}](p, fmt.Sprintf(contrastJS, ratio))
	return out.Bad, out.Looked
}

// contrastJS computes the ratio of WCAG 2 for every text in the document.
// Colours are read back from a canvas, so that every way to write one is
// understood; translucent backgrounds are laid over what is behind them.
const contrastJS = `(() => {
	const canvas = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });
	const cache = new Map();
	const read = (color) => {
		if (!cache.has(color)) {
			canvas.clearRect(0, 0, 1, 1);
			canvas.fillStyle = color;
			canvas.fillRect(0, 0, 1, 1);
			const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
			cache.set(color, [r, g, b, a / 255]);
		}
		return cache.get(color);
	};
	const over = ([r, g, b, a], [R, G, B]) => [r * a + R * (1 - a), g * a + G * (1 - a), b * a + B * (1 - a), 1];
	const light = (c) => {
		const [r, g, b] = c.slice(0, 3).map((v) => v / 255).map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
		return 0.2126 * r + 0.7152 * g + 0.0722 * b;
	};
	const behind = (node) => {
		const layers = [];
		for (let e = node; e; e = e.parentElement) {
			const c = read(getComputedStyle(e).backgroundColor);
			layers.push(c);
			if (c[3] === 1) break;
		}
		return layers.reduceRight((under, c) => over(c, under), [255, 255, 255, 1]);
	};
	const opacity = (node) => {
		let o = 1;
		for (let e = node; e; e = e.parentElement) o *= Number(getComputedStyle(e).opacity);
		return o;
	};
	const bad = new Set();
	let looked = 0;
	const check = (node, text, color) => {
		if (!text.trim() || !node.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true }) || node.closest('.hidden, [hidden], :disabled')) return;
		const shape = node.getBoundingClientRect();
		if (!shape.width || !shape.height) return;
		looked++;
		const back = behind(node);
		const c = read(color);
		const front = over([c[0], c[1], c[2], c[3] * opacity(node)], back);
		const [a, b] = [light(front), light(back)].sort((x, y) => y - x);
		const ratio = (a + 0.05) / (b + 0.05);
		if (ratio < %g) bad.add(ratio.toFixed(2) + ': ' + node.tagName.toLowerCase() + '.' + node.className + ' “' + text.trim().slice(0, 40) + '”');
	};
	const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	while (walk.nextNode()) {
		const node = walk.currentNode.parentElement;
		if (!node.closest('script, noscript, option')) check(node, walk.currentNode.data, getComputedStyle(node).color);
	}
	for (const input of document.querySelectorAll('input:not([type=radio], [type=checkbox], [type=file]), textarea, select')) {
		const placeholder = !input.value && input.placeholder;
		check(input, placeholder || input.value || '', getComputedStyle(input, placeholder ? '::placeholder' : null).color);
	}
	return { bad: [...bad], looked };
})()`

// Media sets what a person has chosen for all pages: the colours light or
// dark, and whether things may move.
func (p *Tab) Media(dark, still bool) {
	p.t.Helper()
	scheme, motion := "light", "no-preference"
	if dark {
		scheme = "dark"
	}
	if still {
		motion = "reduce"
	}
	media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: motion},
	}}
	p.Do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, media)
		return err
	}))
}
