package httpapi

import (
	"bytes"
	"html"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"

	"lilac/internal/foundation/highlight"
	"lilac/internal/foundation/lazyregexp"
)

const (
	// maxFormula bounds the bytes of a formula, and maxFormulas the formulas of a text: a
	// browser typesets about a thousand small ones in a second. Others are shown as they are
	// written.
	maxFormula  = 10_000
	maxFormulas = 2000
)

// Formula is TeX in a text. Source contains its delimiters.
type Formula struct {
	ast.BaseInline
	Source  []byte
	Display bool
	// Open reports that the formula is not complete, or too much to typeset: it is shown as
	// it is written.
	Open bool
}

// FormulaBlock is TeX that stands in lines of its own. Its lines contain the delimiters; those
// of a fence called math do not.
type FormulaBlock struct {
	ast.BaseBlock
	Open, Fenced bool
	last         []byte // the delimiter that ends it
	done         bool
}

// The kinds of these nodes.
var (
	KindFormula      = ast.NewNodeKind("Formula")
	KindFormulaBlock = ast.NewNodeKind("FormulaBlock")
)

// Kind implements [ast.Node].
func (*Formula) Kind() ast.NodeKind { return KindFormula }

// Dump implements [ast.Node].
func (f *Formula) Dump(source []byte, level int) { ast.DumpHelper(f, source, level, nil, nil) }

// Kind implements [ast.Node].
func (*FormulaBlock) Kind() ast.NodeKind { return KindFormulaBlock }

// IsRaw implements [ast.Node]: the lines are not parsed.
func (*FormulaBlock) IsRaw() bool { return true }

// Dump implements [ast.Node].
func (f *FormulaBlock) Dump(source []byte, level int) { ast.DumpHelper(f, source, level, nil, nil) }

// Source returns the TeX of a block with its delimiters.
func (f *FormulaBlock) Source(source []byte) []byte {
	var out bytes.Buffer
	for _, line := range f.Lines().Sliced(0, f.Lines().Len()) {
		out.Write(line.Value(source))
	}
	tex := bytes.TrimSpace(out.Bytes())
	if f.Fenced {
		tex = append(append([]byte("$$\n"), tex...), "\n$$"...)
	}
	return tex
}

// formulas finds TeX between $ and $, \( and \), $$ and $$, \[ and \], and in fences called
// math. There are no empty lines in a formula outside a fence. At the end of a text that still
// grows, a formula that has begun is kept together, so that nothing in it becomes a list or
// emphasis for a moment.
type formulas struct{}

// Extend implements [goldmark.Extender].
func (f formulas) Extend(m goldmark.Markdown) {
	m.Parser().AddOptions(
		parser.WithBlockParsers(util.Prioritized(formulaBlocks{}, 650)),
		parser.WithInlineParsers(util.Prioritized(f, 50)),
		parser.WithASTTransformers(util.Prioritized(f, 500)),
	)
	m.Renderer().AddOptions(renderer.WithNodeRenderers(util.Prioritized(f, 100)))
}

// Trigger implements goldmark's parser.InlineParser.
func (formulas) Trigger() []byte { return []byte{'$', '\\'} }

// delimiters returns the delimiters of the formula that a line may begin.
func delimiters(line []byte) (first, last []byte, display, ok bool) {
	for _, d := range []struct {
		first, last string
		display     bool
	}{{`$$`, `$$`, true}, {`$`, `$`, false}, {`\(`, `\)`, false}, {`\[`, `\]`, true}} {
		if bytes.HasPrefix(line, []byte(d.first)) {
			rest := line[len(d.first):]
			return []byte(d.first), []byte(d.last), d.display, d.first != "$$" || !bytes.HasPrefix(rest, []byte("$"))
		}
	}
	return nil, nil, false, false
}

// closing returns the index of the delimiter that ends a formula in this line, or -1. A
// backslash hides the character after it.
func closing(line, last []byte) int {
	for i := 0; i < len(line); i++ {
		if bytes.HasPrefix(line[i:], last) {
			return i
		}
		if line[i] == '\\' {
			i++
		}
	}
	return -1
}

// Parse implements goldmark's parser.InlineParser.
func (formulas) Parse(_ ast.Node, block text.Reader, pc parser.Context) ast.Node {
	line, segment := block.PeekLine()
	first, last, display, ok := delimiters(line)
	if !ok {
		return nil
	}
	dollar := len(last) == 1
	if dollar && !beginsFormula(line, block.PrecendingCharacter()) {
		return nil
	}
	tex := bytes.Clone(first)
	block.Advance(len(first))
	for {
		line, segment = block.PeekLine()
		if line == nil {
			return nil
		}
		end := closing(line, last)
		if end >= 0 {
			tex = append(tex, line[:end]...)
			after := line[end+len(last):]
			if inner := tex[len(first):]; len(bytes.TrimSpace(inner)) == 0 || dollar && !endsFormula(inner, after) || last[0] == '\\' && isLinkEnd(last, after) {
				return nil
			}
			block.Advance(end + len(last))
			tex = append(tex, last...)
			return &Formula{Source: tex, Display: display, Open: !countFormula(pc, len(tex))}
		}
		tex = append(tex, line...)
		if !dollar && atEnd(block.Source(), segment.Stop) {
			block.Advance(len(line))
			return &Formula{Source: bytes.TrimRight(tex, "\r\n"), Display: display, Open: true}
		}
		block.AdvanceLine()
	}
}

// beginsFormula reports whether a $ may begin a formula: it stands before a character, and not
// in a word such as US$5.
func beginsFormula(line []byte, before rune) bool {
	return len(line) > 1 && !util.IsSpace(line[1]) && before != '$' && before != '\\' && !isWord(before)
}

// price matches what stands between the dollar signs of two prices.
var price = lazyregexp.New(`^[0-9][0-9.,]*[kKmMbB]?(\)|[\s.,;:–-][^\\_^={}+*/<>|]*$)`)

// endsFormula reports whether a $ may end a formula: it stands behind a character, and neither
// before a digit, as in "$5 and $10", nor in a word, as in "$HOME/$USER".
func endsFormula(inner, after []byte) bool {
	if util.IsSpace(inner[len(inner)-1]) || bytes.ContainsRune(inner, '`') || price().Match(inner) {
		return false
	}
	next, _ := utf8.DecodeRune(after)
	return next != '$' && !isWord(next)
}

func isWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// isLinkEnd reports whether \] stands in escaped brackets of a link: \[text\](address).
func isLinkEnd(last, after []byte) bool {
	return last[1] == ']' && len(after) > 0 && (after[0] == '(' || after[0] == ':')
}

// atEnd reports whether nothing follows in the text.
func atEnd(source []byte, at int) bool { return len(bytes.TrimSpace(source[at:])) == 0 }

var formulasKey = parser.NewContextKey()

// countFormula reports whether one more formula of this length may be typeset.
func countFormula(pc parser.Context, length int) bool {
	n, _ := pc.Get(formulasKey).(int)
	pc.Set(formulasKey, n+1)
	return n < maxFormulas && length <= maxFormula
}

// Transform turns fences called math into formulas.
func (formulas) Transform(doc *ast.Document, reader text.Reader, pc parser.Context) {
	var fences []*ast.FencedCodeBlock
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if fence, ok := n.(*ast.FencedCodeBlock); ok && entering && fence.Info != nil &&
			highlight.Language(string(fence.Info.Segment.Value(reader.Source()))) == "math" && fence.Lines().Len() > 0 {
			fences = append(fences, fence)
		}
		return ast.WalkContinue, nil
	})
	for _, fence := range fences {
		block := &FormulaBlock{Fenced: true}
		block.SetLines(fence.Lines())
		lines := fence.Lines()
		end := lines.At(lines.Len() - 1).Stop
		block.Open = atEnd(reader.Source(), end) || !countFormula(pc, end-lines.At(0).Start)
		fence.Parent().ReplaceChild(fence.Parent(), fence, block)
	}
}

// formulaBlocks finds formulas in lines of their own.
type formulaBlocks struct{}

// Trigger implements goldmark's parser.BlockParser.
func (formulaBlocks) Trigger() []byte { return []byte{'$', '\\'} }

// CanInterruptParagraph implements goldmark's parser.BlockParser.
func (formulaBlocks) CanInterruptParagraph() bool { return true }

// CanAcceptIndentedLine implements goldmark's parser.BlockParser.
func (formulaBlocks) CanAcceptIndentedLine() bool { return false }

// openUntilKey is the offset before which no formula in lines of its own ends.
var openUntilKey = parser.NewContextKey()

// Open implements goldmark's parser.BlockParser. It looks ahead for the end of the formula, at
// each line once.
func (formulaBlocks) Open(_ ast.Node, reader text.Reader, pc parser.Context) (ast.Node, parser.State) {
	line, segment := reader.PeekLine()
	pos := pc.BlockOffset()
	if pos < 0 || pos >= len(line) {
		return nil, parser.NoChildren
	}
	first, last, display, ok := delimiters(line[pos:])
	if until, _ := pc.Get(openUntilKey).(int); !ok || !display || segment.Start < until {
		return nil, parser.NoChildren
	}
	block := &FormulaBlock{last: last}
	rest := line[pos+len(first):]
	if end := closing(rest, last); end >= 0 {
		// In a line with other text, the formula is a part of the paragraph.
		if !isBlank(rest[end+len(last):]) || isBlank(rest[:end]) {
			return nil, parser.NoChildren
		}
		block.done = true
	} else if end, closed := lookAhead(reader.Source(), segment.Stop, last); !closed {
		pc.Set(openUntilKey, end)
		return nil, parser.NoChildren
	}
	block.Lines().Append(text.NewSegment(segment.Start-segment.Padding+pos, segment.Stop))
	reader.AdvanceToEOL()
	return block, parser.NoChildren
}

// lookAhead reports whether a formula that has begun before an offset ends in a line of its own
// paragraph, or is the last of the text; otherwise, where the search ended.
func lookAhead(source []byte, at int, last []byte) (end int, closed bool) {
	for at < len(source) {
		line := source[at:]
		if i := bytes.IndexByte(line, '\n'); i >= 0 {
			line = line[:i+1]
		}
		if at += len(line); interrupts(line) {
			return at, atEnd(source, at-len(line))
		}
		if i := closing(line, last); i >= 0 {
			return at, isBlank(line[i+len(last):])
		}
	}
	return at, true
}

// interrupts reports whether a line ends a formula in any case: an empty one, also in a
// quotation, or one with a fence.
func interrupts(line []byte) bool {
	line = bytes.TrimLeft(line, " \t>")
	return isBlank(line) || bytes.HasPrefix(line, []byte("```")) || bytes.HasPrefix(line, []byte("~~~"))
}

// Continue implements goldmark's parser.BlockParser.
func (formulaBlocks) Continue(node ast.Node, reader text.Reader, _ parser.Context) parser.State {
	block := node.(*FormulaBlock) // the type that Open returned
	line, segment := reader.PeekLine()
	if block.done || interrupts(line) {
		return parser.Close
	}
	if end := closing(line, block.last); end >= 0 {
		if !isBlank(line[end+len(block.last):]) {
			return parser.Close
		}
		block.done = true
	}
	block.Lines().Append(segment)
	reader.AdvanceToEOL()
	return parser.Continue | parser.NoChildren
}

// Close implements goldmark's parser.BlockParser. What is no formula after all becomes a
// paragraph.
func (formulaBlocks) Close(node ast.Node, reader text.Reader, pc parser.Context) {
	block := node.(*FormulaBlock)
	lines := block.Lines()
	from, to := lines.At(0).Start, lines.At(lines.Len()-1).Stop
	if block.Open = !block.done; block.Open && !atEnd(reader.Source(), to) {
		paragraph := ast.NewParagraph()
		for _, line := range lines.Sliced(0, lines.Len()) {
			paragraph.Lines().Append(line.TrimLeftSpace(reader.Source()))
		}
		node.Parent().ReplaceChild(node.Parent(), node, paragraph)
		return
	}
	block.Open = block.Open || !countFormula(pc, to-from)
}

func isBlank(line []byte) bool { return len(bytes.TrimSpace(line)) == 0 }

// RegisterFuncs implements goldmark's renderer.NodeRenderer.
func (formulas) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(KindFormula, func(w util.BufWriter, _ []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			f := node.(*Formula)
			writeFormula(w, "span", f.Source, f.Display, f.Open)
		}
		return ast.WalkContinue, nil
	})
	r.Register(KindFormulaBlock, func(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			f := node.(*FormulaBlock)
			writeFormula(w, "div", f.Source(source), true, f.Open)
			_ = w.WriteByte('\n')
		}
		return ast.WalkContinue, nil
	})
}

// writeFormula writes the TeX for the page, which typesets elements of the class math. Readers
// without it see the source.
func writeFormula(w util.BufWriter, tag string, source []byte, display, open bool) {
	classes := []string{"math"}
	if open {
		classes = []string{"tex"}
	}
	if display {
		classes = append(classes, "display")
	}
	_, _ = w.WriteString("<" + tag + ` class="` + strings.Join(classes, " ") + `">` + html.EscapeString(string(source)) + "</" + tag + ">")
}
