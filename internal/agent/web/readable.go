package web

import (
	"fmt"
	"slices"
	"strings"

	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	basePlugin "github.com/JohannesKaufmann/html-to-markdown/v2/plugin/base"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/commonmark"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/table"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"lilac/internal/foundation/fault"
)

// maxIndent bounds the nesting of quotes and lists, whose lines Markdown begins with a mark for each
// level: otherwise a small page could become gigabytes of text.
const maxIndent = 16

// besides lists the elements that surround what people read, or that they do not see.
var besides = []atom.Atom{
	atom.Script, atom.Style, atom.Noscript, atom.Template, atom.Iframe, atom.Object, atom.Svg, atom.Canvas, atom.Form, atom.Button,
	atom.Nav, atom.Aside, atom.Footer, atom.Dialog, atom.Head,
}

// readable replaces the HTML of a page by Markdown of its main part.
func readable(p Page) (Page, error) {
	document, err := html.Parse(strings.NewReader(p.Body))
	if err != nil {
		return Page{}, fault.Wrap(fault.Invalid, err, "The page %s is not HTML that can be read.", p.URL)
	}
	if title := find(document, atom.Title); title != nil && title.FirstChild != nil {
		p.Title = strings.Join(strings.Fields(title.FirstChild.Data), " ")
	}
	main := document
	for _, kind := range []atom.Atom{atom.Main, atom.Article} {
		if only := findAll(document, kind); len(only) == 1 {
			main = only[0]
			break
		}
	}
	prune(main, 0)
	markdown, err := convert(main, p.URL)
	if err != nil { // it is still text
		markdown = words(main)
	}
	p.Body = strings.TrimSpace(markdown)
	return p, nil
}

// convert turns elements into Markdown, with links relative to an address. It writes no escapes:
// the text is for a model, and finding what to escape takes quadratic time.
func convert(n *html.Node, base string) (markdown string, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the converter panicked: %v", r)
		}
	}()
	to := converter.NewConverter(converter.WithEscapeMode(converter.EscapeModeDisabled), converter.WithPlugins(
		basePlugin.NewBasePlugin(), commonmark.NewCommonmarkPlugin(), table.NewTablePlugin(table.WithCellPaddingBehavior(table.CellPaddingBehaviorMinimal))))
	out, err := to.ConvertNode(n, converter.WithDomain(base))
	return string(out), err
}

// words returns the text of elements alone.
func words(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data + " ")
		}
	}
	return b.String()
}

// prune removes what is besides the text, what is hidden, and what would make the text much longer
// than the page: deep indentation, and cells that claim to span many rows or columns. The parser
// has refused deeply nested elements.
func prune(n *html.Node, indent int) {
	switch n.DataAtom {
	case atom.Blockquote, atom.Ul, atom.Ol:
		indent++
	}
	n.Attr = slices.DeleteFunc(n.Attr, func(a html.Attribute) bool { return a.Key == "rowspan" || a.Key == "colspan" })
	for child := n.FirstChild; child != nil; {
		next := child.NextSibling
		if child.Type == html.CommentNode || indent > maxIndent || child.Type == html.ElementNode && (slices.Contains(besides, child.DataAtom) || hidden(child)) {
			n.RemoveChild(child)
		} else {
			prune(child, indent)
		}
		child = next
	}
}

// hidden reports whether browsers do not show an element. Hidden text is a way to talk to the
// model behind people's backs.
func hidden(n *html.Node) bool {
	for _, a := range n.Attr {
		value := strings.ToLower(strings.ReplaceAll(a.Val, " ", ""))
		switch a.Key {
		case "hidden":
			return true
		case "aria-hidden":
			return value == "true"
		case "style":
			return strings.Contains(value, "display:none") || strings.Contains(value, "visibility:hidden")
		}
	}
	return false
}

// find returns the first element of a kind, or nil.
func find(n *html.Node, kind atom.Atom) *html.Node {
	for d := range n.Descendants() {
		if d.Type == html.ElementNode && d.DataAtom == kind {
			return d
		}
	}
	return nil
}

func findAll(n *html.Node, kind atom.Atom) (all []*html.Node) {
	for d := range n.Descendants() {
		if d.Type == html.ElementNode && d.DataAtom == kind {
			all = append(all, d)
		}
	}
	return all
}
