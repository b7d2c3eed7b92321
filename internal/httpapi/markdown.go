package httpapi

import (
	"bytes"
	"net/http"
	"net/url"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"

	"lilac/internal/fault"
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
			util.Prioritized(parser.NewCodeSpanParser(), 100),
			util.Prioritized(parser.NewLinkParser(), 200),
			util.Prioritized(parser.NewAutoLinkParser(), 300),
			util.Prioritized(parser.NewEmphasisParser(), 500),
		),
		parser.WithParagraphTransformers(parser.DefaultParagraphTransformers()...),
		parser.WithASTTransformers(util.Prioritized(safeLinks{}, 1000)),
	)),
	goldmark.WithExtensions(extension.Table, extension.Strikethrough, extension.Linkify, extension.TaskList),
)

// RenderMarkdown renders text that a model or a person wrote as HTML that is
// safe to show: HTML in it as text, links to http, https and mailto only, and images
// as links, so that showing an answer fetches nothing.
func RenderMarkdown(source string) (string, error) {
	var out bytes.Buffer
	if err := markdown.Convert([]byte(source), &out); err != nil {
		return "", fault.Wrap(fault.Internal, err, "The text could not be rendered.")
	}
	return out.String(), nil
}

type safeLinks struct{}

// Transform implements goldmark's parser.ASTTransformer.
func (safeLinks) Transform(doc *ast.Document, _ text.Reader, _ parser.Context) {
	var images []*ast.Image
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Image:
			images = append(images, n)
		case *ast.Link:
			n.Destination = safeURL(n.Destination)
			guardLink(n)
		case *ast.AutoLink:
			guardLink(n)
		}
		return ast.WalkContinue, nil
	})
	for _, img := range images {
		link := ast.NewLink()
		link.Destination = safeURL(img.Destination)
		guardLink(link)
		for c := img.FirstChild(); c != nil; {
			next := c.NextSibling()
			link.AppendChild(link, c)
			c = next
		}
		img.Parent().ReplaceChild(img.Parent(), img, link)
	}
}

func guardLink(n ast.Node) {
	n.SetAttributeString("rel", []byte("noopener noreferrer nofollow"))
	n.SetAttributeString("target", []byte("_blank"))
}

func safeURL(dest []byte) []byte {
	u, err := url.Parse(strings.TrimSpace(string(dest)))
	if err != nil {
		return []byte("#")
	}
	switch strings.ToLower(u.Scheme) {
	case "http", "https", "mailto":
		return dest
	}
	return []byte("#")
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
	html, err := RenderMarkdown(in.Text)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, struct {
		HTML string `json:"html"`
	}{html})
}
