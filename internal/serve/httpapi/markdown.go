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

// The parsers are goldmark's own without those of raw HTML: who says <branch> or
// <div> means these words, so they are shown, and not left out or obeyed. Links
// go through [safeLinks].
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
	goldmark.WithExtensions(boundedTables{}, extension.Strikethrough, extension.Linkify, extension.TaskList),
)

// RenderMarkdown renders text that a model or a person wrote as HTML that is
// safe to show: HTML in it as text, links to http, https and mailto, others as
// their words, and images as links, so that showing an answer fetches nothing.
func RenderMarkdown(source string) (string, error) {
	if tangled(source) {
		return "<pre>" + html.EscapeString(source) + "</pre>\n", nil
	}
	var out bytes.Buffer
	if err := markdown.Convert([]byte(source), &out); err != nil {
		return "", fault.Wrap(fault.Internal, err, "The text could not be rendered.")
	}
	return out.String(), nil
}

const (
	// maxLine bounds a line and maxNesting the quotes and lists in each other that
	// one begins: with both the work grows faster than the text, up to minutes for
	// a megabyte. Nobody reads what is beyond them.
	maxLine    = 32 << 10
	maxNesting = 100
	// maxNested bounds how far to the right one begins, times the lines of the text:
	// each line, also a blank one, is held against every one that may still be open.
	maxNested = 1_000_000
)

// nested matches what begins a quote or a list.
var nested = lazyregexp.New(`^[ \t]*(>|([-*+]|[0-9]{1,9}[.)])([ \t]|$))`)

// tangled reports whether a text is no Markdown that somebody wrote to be read; it
// is shown as it is.
func tangled(source string) bool {
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

// maxCells bounds the tables of a text together. Every row gets as many cells as
// the head has, written or not, so that a few kilobytes could be gigabytes of table.
const maxCells = 100_000

// boundedTables are goldmark's own, within maxCells; what is beyond is shown as it is written.
type boundedTables struct{ parser.ParagraphTransformer }

var cellsKey = parser.NewContextKey()

// Extend implements [goldmark.Extender].
func (boundedTables) Extend(m goldmark.Markdown) {
	m.Parser().AddOptions(
		parser.WithParagraphTransformers(util.Prioritized(boundedTables{extension.NewTableParagraphTransformer()}, 200)),
		parser.WithASTTransformers(util.Prioritized(extension.NewTableASTTransformer(), 0)),
	)
	// The page's policy forbids style attributes.
	cells := extension.NewTableHTMLRenderer(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute))
	m.Renderer().AddOptions(renderer.WithNodeRenderers(util.Prioritized(cells, 500)))
}

// Transform makes a table of a paragraph that is one.
func (t boundedTables) Transform(p *ast.Paragraph, reader text.Reader, pc parser.Context) {
	columns := 0
	for _, line := range p.Lines().Sliced(0, p.Lines().Len()) {
		words := line.Value(reader.Source())
		if len(bytes.Trim(words, "|:- \t\r\n")) == 0 { // it can be what stands under the head
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

// maxDefinitions is how many lines a paragraph may have that is looked through for
// definitions of links; for each of those the lines behind it are copied.
const maxDefinitions = 1000

// boundedDefinitions are goldmark's own, within maxDefinitions.
type boundedDefinitions struct{ parser.ParagraphTransformer }

// Transform takes definitions of links out of a paragraph.
func (t boundedDefinitions) Transform(p *ast.Paragraph, reader text.Reader, pc parser.Context) {
	if p.Lines().Len() <= maxDefinitions {
		t.ParagraphTransformer.Transform(p, reader, pc)
	}
}

// maxLooks bounds, for the marks of a text together, how much a mark may have to be
// compared with: at worst all of its paragraph, so that a few kilobytes of stars
// without partners could be minutes.
const maxLooks = 50_000_000

// boundedMarks lets goldmark's own parsers see marks within maxLooks; a line is shown
// as it is written from the first one beyond them.
type boundedMarks struct{}

var looksKey = parser.NewContextKey()

// Trigger implements goldmark's parser.InlineParser.
func (boundedMarks) Trigger() []byte { return []byte("*_~`[]!<") }

// Parse implements goldmark's parser.InlineParser.
func (boundedMarks) Parse(parent ast.Node, block text.Reader, pc parser.Context) ast.Node {
	lines := parent.Lines()
	looks, _ := pc.Get(looksKey).(int)
	if looks += lines.At(lines.Len()-1).Stop - lines.At(0).Start; looks <= maxLooks {
		pc.Set(looksKey, looks)
		return nil
	}
	line, segment := block.PeekLine()
	words := segment.WithStop(segment.Start + len(bytes.TrimRight(line, "\r\n")))
	block.Advance(words.Len())
	return ast.NewTextSegment(words)
}

type safeLinks struct{}

// Transform implements goldmark's parser.ASTTransformer.
func (safeLinks) Transform(doc *ast.Document, reader text.Reader, _ parser.Context) {
	var images []*ast.Image
	var bare []*ast.AutoLink // whose words are the address
	var words []ast.Node
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Image:
			if isSafe(n.Destination) {
				images = append(images, n)
			} else {
				words = append(words, n)
			}
		case *ast.Link:
			if isSafe(n.Destination) {
				guardLink(n)
			} else {
				words = append(words, n)
			}
		case *ast.AutoLink:
			if n.AutoLinkType == ast.AutoLinkEmail || isSafe(n.URL(reader.Source())) {
				guardLink(n)
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
		guardLink(link)
		img.Parent().InsertBefore(img.Parent(), img, link)
		for img.HasChildren() {
			link.AppendChild(link, img.FirstChild())
		}
		img.Parent().RemoveChild(img.Parent(), img)
	}
	for _, n := range words {
		for n.HasChildren() {
			n.Parent().InsertBefore(n.Parent(), n, n.FirstChild())
		}
		n.Parent().RemoveChild(n.Parent(), n)
	}
}

func guardLink(n ast.Node) {
	n.SetAttributeString("rel", []byte("noopener noreferrer nofollow"))
	n.SetAttributeString("target", []byte("_blank"))
}

// isSafe says whether a destination leads to another place than this page.
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

// renderMarkdown renders one text at a time, whoever asks: the worst take hundreds of
// times their length of memory for a moment.
func (a *api) renderMarkdown(ctx context.Context, source string) (string, error) {
	select {
	case a.rendering <- struct{}{}:
		defer func() { <-a.rendering }()
		return RenderMarkdown(source)
	case <-ctx.Done():
		return "", fmt.Errorf("wait to render: %w", ctx.Err())
	}
}

// maxRender is above what any answer has and bounds what one call costs.
const maxRender = 1 << 20

func (a *api) render(w http.ResponseWriter, r *http.Request) error {
	body, err := readBody(w, r, 2*maxRender)
	if err != nil {
		return err
	}
	var in struct {
		Text string `json:"text"`
	}
	if err := decode(body, &in, false); err != nil {
		return err
	}
	if len(in.Text) > maxRender {
		return &fault.Error{Kind: fault.TooLarge, Field: "text", Message: "The text is too long to be rendered."}
	}
	html, err := a.renderMarkdown(r.Context(), in.Text)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, struct {
		HTML string `json:"html"`
	}{html})
}
