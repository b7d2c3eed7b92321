package httpapi

import (
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// maxFootnotes limits the footnotes of a text, because each reference is compared with all of
// them. Further ones are text.
const maxFootnotes = 500

// footnotes are goldmark's footnotes, up to maxFootnotes. Their ids and links are unique in one
// text only; the page makes them unique among its messages.
type footnotes struct{ parser.BlockParser }

// Extend implements [goldmark.Extender].
func (footnotes) Extend(m goldmark.Markdown) {
	m.Parser().AddOptions(
		parser.WithBlockParsers(util.Prioritized(footnotes{extension.NewFootnoteBlockParser()}, 999)),
		parser.WithInlineParsers(util.Prioritized(extension.NewFootnoteParser(), 101)),
		parser.WithASTTransformers(util.Prioritized(extension.NewFootnoteASTTransformer(), 999)),
	)
	m.Renderer().AddOptions(renderer.WithNodeRenderers(util.Prioritized(extension.NewFootnoteHTMLRenderer(), 500)))
}

var footnotesKey = parser.NewContextKey()

// Open implements goldmark's parser.BlockParser.
func (f footnotes) Open(parent ast.Node, reader text.Reader, pc parser.Context) (ast.Node, parser.State) {
	n, _ := pc.Get(footnotesKey).(int)
	if n >= maxFootnotes {
		return nil, parser.NoChildren
	}
	node, state := f.BlockParser.Open(parent, reader, pc)
	if node != nil {
		pc.Set(footnotesKey, n+1)
	}
	return node, state
}
