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

// needNames are the roles of interactive elements, which a screen reader announces by
// name.
var needNames = []string{"button", "link", "textbox", "searchbox", "combobox", "checkbox", "radio", "dialog", "navigation", "region", "img"}

// Nameless lists interactive elements without a name in the browser's accessibility
// tree, and returns how many elements it checked.
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

// Faint lists visible texts whose contrast with their background is below a ratio, and
// returns how many texts it checked.
func (p *Tab) Faint(ratio float64) (bad []string, looked int) {
	p.t.Helper()
	out := Eval[struct {
		Bad    []string `json:"bad"`
		Looked int      `json:"looked"`
	}](p, fmt.Sprintf(contrastJS, ratio))
	return out.Bad, out.Looked
}

// contrastJS computes the WCAG 2 contrast ratio of every text in the document. It reads
// colours back from a canvas, which understands every notation, and blends translucent
// backgrounds with those behind them.
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

// Media sets the person's preferences: light or dark colours, and reduced motion.
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
