package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

//go:embed site.css
var css string

//go:embed search.js
var searchScript string

// entry is a section of a page in the index of the search.
type entry struct {
	Page    string `json:"page"`
	Title   string `json:"title"`
	Section string `json:"section"`
	Text    string `json:"text"`
}

// site is a site that is being written.
type site struct {
	root, dir string
	pages     []page
	markdown  goldmark.Markdown
	// anchors are the ids of the headings of each page.
	anchors map[string]map[string]bool
	index   []entry
	broken  []error
	// images are the files that pages refer to, by their path in the clone.
	images map[string]bool
}

// write writes the site of a clone. A broken link is an error.
func write(root, dir string) error {
	pages, err := load(root)
	if err != nil {
		return err
	}
	s := &site{
		root: root, dir: dir, pages: pages, anchors: map[string]map[string]bool{}, images: map[string]bool{},
		markdown: goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithParserOptions(parser.WithAutoHeadingID())),
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	trees := make([]ast.Node, len(pages))
	for i, p := range pages {
		trees[i] = s.markdown.Parser().Parse(text.NewReader([]byte(p.markdown)))
		s.anchors[p.name] = s.sections(p, trees[i])
	}
	for i, p := range pages {
		s.links(p, trees[i])
		var body bytes.Buffer
		if err := s.markdown.Renderer().Render(&body, []byte(p.markdown), trees[i]); err != nil {
			return err
		}
		if err := errors.Join(s.file(p.name+".html", s.frame(p, body.String())), s.file(p.name+".md", p.markdown)); err != nil {
			return err
		}
	}
	index, err := json.Marshal(s.index)
	if err != nil {
		return err
	}
	for image := range s.images {
		data, err := os.ReadFile(filepath.Join(root, image))
		if err != nil {
			s.broken = append(s.broken, err)
			continue
		}
		if err := s.file(path.Base(image), string(data)); err != nil {
			return err
		}
	}
	return errors.Join(append(s.broken, s.file("site.css", css), s.file("search.js", searchScript), s.file("search.json", string(index)), s.file("llms.txt", s.llms()))...)
}

func (s *site) file(name, content string) error {
	return os.WriteFile(filepath.Join(s.dir, name), []byte(content), 0o644)
}

// sections adds the sections of a page to the search, and returns the ids of its headings.
func (s *site) sections(p page, tree ast.Node) map[string]bool {
	ids := map[string]bool{"": true}
	current := entry{Page: p.name + ".html", Title: p.title}
	var b strings.Builder
	flush := func() {
		current.Text = strings.Join(strings.Fields(b.String()), " ")
		if current.Text != "" || current.Section != "" {
			s.index = append(s.index, current)
		}
		b.Reset()
	}
	for n := tree.FirstChild(); n != nil; n = n.NextSibling() {
		if h, ok := n.(*ast.Heading); ok {
			id, _ := h.AttributeString("id")
			name, _ := id.([]byte)
			ids[string(name)] = true
			if h.Level > 1 {
				flush()
				current.Page, current.Section = p.name+".html#"+string(name), plain(h, []byte(p.markdown))
			}
			continue
		}
		b.WriteString(plain(n, []byte(p.markdown)))
		b.WriteByte(' ')
	}
	flush()
	return ids
}

// plain returns the text of a node.
func plain(n ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // the function never fails
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Text:
			b.Write(n.Segment.Value(source))
			b.WriteByte(' ')
		case *ast.FencedCodeBlock:
			b.Write(n.Lines().Value(source))
		}
		return ast.WalkContinue, nil
	})
	return strings.TrimSpace(b.String())
}

// links points the links of a page at pages of the site, and notes broken ones.
func (s *site) links(p page, tree ast.Node) {
	_ = ast.Walk(tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // the function never fails
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Link:
			n.Destination = []byte(s.target(p, string(n.Destination)))
		case *ast.Image:
			file := path.Join(path.Dir(p.source), string(n.Destination))
			s.images[file] = true
			n.Destination = []byte(path.Base(file))
		}
		return ast.WalkContinue, nil
	})
}

// target returns the address in the site of a link of a page.
func (s *site) target(p page, link string) string {
	u, err := url.Parse(link)
	if err != nil || u.Scheme != "" || u.Host != "" {
		return link
	}
	file := path.Join(path.Dir(p.source), u.Path)
	if u.Path == "" {
		file = p.source
	}
	for _, other := range s.pages {
		if u.Path == "" && other.name != p.name || u.Path != "" && other.source != file {
			continue
		}
		if !s.anchors[other.name][u.Fragment] {
			s.broken = append(s.broken, fmt.Errorf("%s links to %s, which has no such section", orElse(p.source, p.name), link))
		}
		if u.Fragment != "" {
			return other.name + ".html#" + u.Fragment
		}
		return other.name + ".html"
	}
	if strings.HasPrefix(file, "examples/") && strings.HasSuffix(file, ".yaml") {
		return "examples.html#" + strings.NewReplacer(".", "").Replace(path.Base(file))
	}
	if _, err := os.Stat(filepath.Join(s.root, file)); err != nil {
		s.broken = append(s.broken, fmt.Errorf("%s links to %s, which does not exist", orElse(p.source, p.name), link))
	}
	return link // a file of the repository that is no page
}

// frame returns a whole page around its body.
func (s *site) frame(p page, body string) string {
	var nav strings.Builder
	part := ""
	for _, other := range s.pages {
		if other.part != part {
			if part != "" {
				nav.WriteString("</ul>")
			}
			part = other.part
			fmt.Fprintf(&nav, "<h2>%s</h2><ul>", html.EscapeString(part))
		}
		current := ""
		if other.name == p.name {
			current = ` aria-current="page"`
		}
		fmt.Fprintf(&nav, `<li><a href="%s.html"%s>%s</a></li>`, other.name, current, html.EscapeString(other.title))
	}
	return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>` + html.EscapeString(p.title) + ` · Lilac</title>
<link rel="stylesheet" href="site.css">
<link rel="alternate" type="text/markdown" href="` + p.name + `.md">
</head>
<body>
<a class="skip" href="#main">Skip to the content</a>
<header><a class="home" href="index.html">Lilac</a>
<search><label for="q">Search</label><input id="q" type="search" placeholder="Search (press /)" autocomplete="off" aria-controls="results"><ol id="results" hidden></ol></search></header>
<div class="columns">
<nav aria-label="Pages"><details open><summary>Pages</summary>` + nav.String() + `</ul></details></nav>
<main id="main">
` + body + `</main>
</div>
<script src="search.js" defer></script>
</body>
</html>
`
}

// llms returns the overview for language models (https://llmstxt.org).
func (s *site) llms() string {
	var b strings.Builder
	b.WriteString("# Lilac\n\n> Lilac puts an AI agent into Discord, a web page, and a terminal. It never loses a message that it has accepted, and answers it exactly once, even through kill -9.\n")
	part := ""
	for _, p := range s.pages {
		if p.part != part {
			part = p.part
			fmt.Fprintf(&b, "\n## %s\n\n", part)
		}
		fmt.Fprintf(&b, "- [%s](%s.md)\n", p.title, p.name)
	}
	return b.String()
}
