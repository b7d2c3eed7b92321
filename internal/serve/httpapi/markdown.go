package httpapi

import (
	"bytes"
	"context"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/lazyregexp"
)

// The parsers are goldmark's own without those for raw HTML: text such as <branch>
// or <div> is shown as written, neither dropped nor interpreted. Links go through
// [safeLinks].
var markdown = goldmark.New(
	goldmark.WithParser(parser.NewParser(
		parser.WithBlockParsers(
			util.Prioritized(parser.NewSetextHeadingParser(), 100),
			util.Prioritized(parser.NewThematicBreakParser(), 200),
			util.Prioritized(parser.NewListParser(), 300),
			util.Prioritized(parser.NewListItemParser(), 400),
			util.Prioritized(parser.NewCodeBlockParser(), 500),
			util.Prioritized(parser.NewATXHeadingParser(), 600),
			util.Prioritized(parser.NewFencedCodeBlockParser(), 700),
			util.Prioritized(parser.NewBlockquoteParser(), 800),
			util.Prioritized(parser.NewParagraphParser(), 1000),
		),
		parser.WithInlineParsers(
			util.Prioritized(boundedMarks{}, 0),
			util.Prioritized(parser.NewCodeSpanParser(), 100),
			util.Prioritized(parser.NewLinkParser(), 200),
			util.Prioritized(parser.NewAutoLinkParser(), 300),
			util.Prioritized(parser.NewEmphasisParser(), 500),
		),
		parser.WithParagraphTransformers(util.Prioritized(boundedDefinitions{parser.LinkReferenceParagraphTransformer}, 100)),
		parser.WithASTTransformers(util.Prioritized(safeLinks{}, 1000)),
	)),
	goldmark.WithExtensions(boundedTables{}, extension.Strikethrough, extension.Linkify, extension.TaskList, codeBlocks{}, formulas{}, footnotes{}),
)

// RenderMarkdown renders text of a model or a person as HTML that is safe to show.
// HTML in it becomes text. Links to http, https and mailto are kept; other links
// become their text. Images become links, so showing an answer fetches nothing.
func RenderMarkdown(source string) (string, error) {
	if tooComplex(source) {
		return "<pre>" + html.EscapeString(source) + "</pre>\n", nil
	}
	var out bytes.Buffer
	if err := markdown.Convert([]byte(source), &out); err != nil {
		return "", fault.Wrap(fault.Internal, err, "The text could not be rendered.")
	}
	return out.String(), nil
}

const (
	// maxLine limits the bytes of a line, and maxNesting the nested quotes and lists
	// that one line begins. Beyond them parsing time grows faster than the text, up
	// to minutes for a megabyte, and people do not write such text.
	maxLine    = 32 << 10
	maxNesting = 100
	// maxNested limits the column at which a quote or list begins, times the number
	// of lines, because each line is compared with every block that is still open.
	maxNested = 1_000_000
)

// nested matches the beginning of a quote, a list item, or a footnote.
var nested = lazyregexp.New(`^[ \t]*(>|([-*+]|[0-9]{1,9}[.)])([ \t]|$)|\[\^[^\]]+\]:)`)

// tooComplex reports whether a text is too expensive to parse. It is then shown
// unformatted.
func tooComplex(source string) bool {
	lines := strings.Count(source, "\n") + 1
	for line := range strings.Lines(source) {
		if len(line) > maxLine {
			return true
		}
		column := 0
		for depth := 0; ; depth++ {
			begin := nested().FindStringIndex(line[column:])
			if begin == nil {
				break
			}
			if column += begin[1]; depth == maxNesting || column*lines > maxNested {
				return true
			}
		}
	}
	return false
}

// maxCells limits the cells of all tables of a text. Every row is padded to the
// width of the header, so a few kilobytes could become gigabytes of HTML.
const maxCells = 100_000

// boundedTables are goldmark's tables, up to maxCells. Further tables are shown as
// they are written.
type boundedTables struct{ parser.ParagraphTransformer }

var cellsKey = parser.NewContextKey()

// Extend implements [goldmark.Extender].
func (boundedTables) Extend(m goldmark.Markdown) {
	m.Parser().AddOptions(
		parser.WithParagraphTransformers(util.Prioritized(boundedTables{extension.NewTableParagraphTransformer()}, 200)),
		parser.WithASTTransformers(util.Prioritized(extension.NewTableASTTransformer(), 0)),
	)
	// The page's content security policy forbids style attributes.
	cells := extension.NewTableHTMLRenderer(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute))
	m.Renderer().AddOptions(renderer.WithNodeRenderers(util.Prioritized(cells, 500)))
}

// Transform replaces a paragraph by a table if it is one.
func (t boundedTables) Transform(p *ast.Paragraph, reader text.Reader, pc parser.Context) {
	columns := 0
	for _, line := range p.Lines().Sliced(0, p.Lines().Len()) {
		words := line.Value(reader.Source())
		if len(bytes.Trim(words, "|:- \t\r\n")) == 0 { // possibly the line below the header
			columns = max(columns, bytes.Count(words, []byte("|"))+1)
		}
	}
	cells, _ := pc.Get(cellsKey).(int)
	if cells += columns * p.Lines().Len(); cells > maxCells {
		return
	}
	pc.Set(cellsKey, cells)
	t.ParagraphTransformer.Transform(p, reader, pc)
}

// maxDefinitions limits the lines of a paragraph that is searched for link
// definitions, because goldmark copies the remaining lines for each definition.
const maxDefinitions = 1000

// boundedDefinitions are goldmark's link definitions, up to maxDefinitions.
type boundedDefinitions struct{ parser.ParagraphTransformer }

// Transform removes link definitions from a paragraph.
func (t boundedDefinitions) Transform(p *ast.Paragraph, reader text.Reader, pc parser.Context) {
	if p.Lines().Len() <= maxDefinitions {
		t.ParagraphTransformer.Transform(p, reader, pc)
	}
}

// maxComparisons limits the bytes that all delimiters of a text may be compared
// with. In the worst case each is compared with its whole paragraph, so a few
// kilobytes of unmatched asterisks could take minutes.
const maxComparisons = 50_000_000

// boundedMarks hides delimiters from goldmark's parsers beyond maxComparisons; the
// rest of the line is then shown as it is written.
type boundedMarks struct{}

var comparisonsKey = parser.NewContextKey()

// Trigger implements goldmark's parser.InlineParser.
func (boundedMarks) Trigger() []byte { return []byte("*_~`[]!<$\\") }

// Parse implements goldmark's parser.InlineParser.
func (boundedMarks) Parse(parent ast.Node, block text.Reader, pc parser.Context) ast.Node {
	lines := parent.Lines()
	compared, _ := pc.Get(comparisonsKey).(int)
	if compared += lines.At(lines.Len()-1).Stop - lines.At(0).Start; compared <= maxComparisons {
		pc.Set(comparisonsKey, compared)
		return nil
	}
	line, segment := block.PeekLine()
	words := segment.WithStop(segment.Start + len(bytes.TrimRight(line, "\r\n")))
	block.Advance(words.Len())
	return ast.NewTextSegment(words)
}

// safeLinks removes links with unsafe destinations and turns images into links.
type safeLinks struct{}

// Transform implements goldmark's parser.ASTTransformer.
func (safeLinks) Transform(doc *ast.Document, reader text.Reader, _ parser.Context) {
	var images []*ast.Image
	var bare []*ast.AutoLink // their text is the address
	var unsafe []ast.Node    // replaced by their text
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Image:
			if isSafe(n.Destination) {
				images = append(images, n)
			} else {
				unsafe = append(unsafe, n)
			}
		case *ast.Link:
			if isSafe(n.Destination) {
				isolateLink(n)
			} else {
				unsafe = append(unsafe, n)
			}
		case *ast.AutoLink:
			if n.AutoLinkType == ast.AutoLinkEmail || isSafe(n.URL(reader.Source())) {
				isolateLink(n)
			} else {
				bare = append(bare, n)
			}
		}
		return ast.WalkContinue, nil
	})
	for _, n := range bare {
		n.Parent().ReplaceChild(n.Parent(), n, ast.NewString(n.Label(reader.Source())))
	}
	for _, img := range images {
		link := ast.NewLink()
		link.Destination = img.Destination
		isolateLink(link)
		img.Parent().InsertBefore(img.Parent(), img, link)
		for img.HasChildren() {
			link.AppendChild(link, img.FirstChild())
		}
		img.Parent().RemoveChild(img.Parent(), img)
	}
	for _, n := range unsafe {
		for n.HasChildren() {
			n.Parent().InsertBefore(n.Parent(), n, n.FirstChild())
		}
		n.Parent().RemoveChild(n.Parent(), n)
	}
}

// isolateLink opens a link in a new tab that cannot reach this page.
func isolateLink(n ast.Node) {
	n.SetAttributeString("rel", []byte("noopener noreferrer nofollow"))
	n.SetAttributeString("target", []byte("_blank"))
}

// isSafe reports whether a destination is absolute and cannot run code.
func isSafe(dest []byte) bool {
	u, err := url.Parse(strings.TrimSpace(string(dest)))
	if err != nil {
		return false
	}
	switch strings.ToLower(u.Scheme) {
	case "http", "https", "mailto":
		return true
	}
	return false
}

// markdownRenderer renders one text at a time, because the worst texts need hundreds of
// times their length of memory for a moment.
type markdownRenderer struct{ busy chan struct{} }

func newRenderer() *markdownRenderer { return &markdownRenderer{busy: make(chan struct{}, 1)} }

func (r *markdownRenderer) render(ctx context.Context, source string) (string, error) {
	select {
	case r.busy <- struct{}{}:
		defer func() { <-r.busy }()
		return RenderMarkdown(source)
	case <-ctx.Done():
		return "", fmt.Errorf("wait to render: %w", ctx.Err())
	}
}

// maxRender limits a text to render, in bytes. No answer is longer.
const maxRender = 1 << 20

type renderBody struct {
	Text string `json:"text"`
}

type rendered struct {
	HTML string `json:"html"`
}

func (r *markdownRenderer) reply(req *http.Request, in renderBody) (out rendered, err error) {
	if len(in.Text) > maxRender {
		return out, &fault.Error{Kind: fault.TooLarge, Field: "text", Message: "The text is too long to render."}
	}
	out.HTML, err = r.render(req.Context(), in.Text)
	return out, err
}
