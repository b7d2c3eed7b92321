package httpapi

import (
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"
)

// ParseMarkdown parses text of a model or a person like [RenderMarkdown]: the tree has
// no raw HTML, and only safe links. The tree refers to source. For text whose parsing
// could take minutes, ok is false.
func ParseMarkdown(source []byte) (tree ast.Node, ok bool) {
	if tooComplex(string(source)) {
		return nil, false
	}
	return markdown.Parser().Parse(text.NewReader(source)), true
}
