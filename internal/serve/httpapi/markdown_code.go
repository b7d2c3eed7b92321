package httpapi

import (
	"bytes"
	"html"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/util"

	"lilac/internal/foundation/highlight"
)

// codeBlocks renders fenced code with the kinds of its words as classes, and the name of the
// language in data-language.
type codeBlocks struct{}

// maxHighlighted limits the bytes of code that is highlighted: markup is about ten times as long.
const maxHighlighted = 128 << 10

// Extend implements [goldmark.Extender].
func (c codeBlocks) Extend(m goldmark.Markdown) {
	m.Renderer().AddOptions(renderer.WithNodeRenderers(util.Prioritized(c, 100)))
}

// RegisterFuncs implements goldmark's renderer.NodeRenderer.
func (codeBlocks) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindFencedCodeBlock, renderCode)
}

func renderCode(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	block := node.(*ast.FencedCodeBlock) // the kind that was registered
	var code bytes.Buffer
	for _, line := range block.Lines().Sliced(0, block.Lines().Len()) {
		code.Write(line.Value(source))
	}
	name := ""
	if block.Info != nil {
		name = highlight.Language(string(block.Info.Segment.Value(source)))
	}
	_, _ = w.WriteString("<pre") // a bufio.Writer: the flush reports errors
	if name != "" {
		_, _ = w.WriteString(` data-language="` + html.EscapeString(name) + `"`)
	}
	_, _ = w.WriteString("><code>")
	tokens := []highlight.Token{{Text: code.String()}}
	if code.Len() <= maxHighlighted {
		tokens = highlight.Tokens(code.String(), name)
	}
	for _, t := range tokens {
		text := html.EscapeString(t.Text)
		if t.Kind != highlight.Plain {
			text = `<span class="code-` + string(t.Kind) + `">` + text + "</span>"
		}
		_, _ = w.WriteString(text)
	}
	_, _ = w.WriteString("</code></pre>\n")
	return ast.WalkSkipChildren, nil
}
