package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lilac/internal/app/cli"
	"lilac/internal/serve/httpapi"
)

// page is one page of the site.
type page struct {
	// name is the file name without its ending; source is the Markdown file in the clone,
	// or "" for a generated page.
	name, source string
	part, title  string
	markdown     string
}

// parts are the parts of the site, in order, with the pages of each. Generated pages have
// no source.
var parts = []struct {
	title string
	pages [][2]string // name, source
}{
	{"Start", [][2]string{{"index", "docs/start.md"}, {"install", "docs/install.md"}}},
	{"Guides", [][2]string{
		{"terminal", "docs/terminal.md"},
		{"editors", "docs/editors.md"},
		{"discord", "docs/discord.md"},
		{"models", "docs/models.md"},
		{"sources", "docs/sources.md"},
		{"redis", "docs/redis.md"},
		{"tools", "docs/tools.md"},
		{"examples", "examples/README.md"},
		{"accounts", "docs/accounts.md"},
		{"operations", "docs/operations.md"},
		{"scale", "docs/scale.md"},
		{"security", "SECURITY.md"},
	}},
	{"Reference", [][2]string{{"commands", ""}, {"configuration", "docs/configuration.md"}, {"events", "docs/events.md"}, {"http", ""}, {"metrics", "docs/metrics.md"}, {"changes", "CHANGELOG.md"}}},
	{"Explanation", [][2]string{{"nothing-is-lost", "docs/nothing-is-lost.md"}, {"chaos", "docs/chaos.md"}, {"architecture", "docs/architecture.md"}, {"performance", "docs/performance.md"}}},
}

// generated are the pages that the program itself describes.
var generated = map[string]func() (string, error){"commands": commands, "http": routes}

// load reads and generates all pages of a clone. Pages of docs/ that no part lists, except
// decisions and pages for contributors, are added to the guides, so that none is missing.
func load(root string) (pages []page, err error) {
	listed := []string{"docs/recipes.md"}
	for _, part := range parts {
		for _, p := range part.pages {
			listed = append(listed, p[1])
		}
	}
	all, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		return nil, err
	}
	for _, part := range parts {
		if part.title == "Guides" {
			for _, path := range all {
				if source := "docs/" + filepath.Base(path); !slices.Contains(listed, source) {
					part.pages = append(part.pages, [2]string{strings.TrimSuffix(filepath.Base(path), ".md"), source})
				}
			}
		}
		for _, p := range part.pages {
			one := page{name: p[0], source: p[1], part: part.title}
			if make, ok := generated[one.name]; ok {
				one.markdown, err = make()
			} else {
				var raw []byte
				raw, err = os.ReadFile(filepath.Join(root, one.source))
				one.markdown = string(raw)
			}
			if err != nil {
				return nil, err
			}
			if one.name == "examples" {
				one.markdown, err = withExamples(root, one.markdown)
				if err != nil {
					return nil, err
				}
			}
			one.title = titleOf(one.markdown)
			pages = append(pages, one)
		}
	}
	decisions, err := decisionPages(root)
	return append(pages, decisions...), err
}

// decisionPages returns one page for each decision.
func decisionPages(root string) (pages []page, err error) {
	files, err := filepath.Glob(filepath.Join(root, "docs", "decisions", "0*.md"))
	if err != nil {
		return nil, err
	}
	for _, path := range files {
		raw, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		name := strings.TrimSuffix(filepath.Base(path), ".md")
		pages = append(pages, page{name: "decision-" + name, source: "docs/decisions/" + name + ".md", part: "Decisions", title: titleOf(string(raw)), markdown: string(raw)})
	}
	return pages, nil
}

func titleOf(markdown string) string {
	for l := range strings.Lines(markdown) {
		if title, ok := strings.CutPrefix(l, "# "); ok {
			return strings.TrimSpace(title)
		}
	}
	return ""
}

// withExamples adds the text of each example to their list.
func withExamples(root, markdown string) (string, error) {
	files, err := filepath.Glob(filepath.Join(root, "examples", "*.yaml"))
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(markdown)
	for _, path := range files {
		raw, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "\n## %s\n\n```yaml\n%s\n```\n", filepath.Base(path), strings.TrimSpace(string(raw)))
	}
	return b.String(), nil
}

// commands describes the command line.
func commands() (string, error) {
	var b strings.Builder
	b.WriteString("# Commands\n\nEvery command also prints this with `--help`.\n")
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Hidden || c.Name() == "help" || c.Name() == "completion" {
			return
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", c.CommandPath(), strings.TrimSpace(orElse(c.Long, c.Short)))
		if c.Runnable() || c.HasParent() {
			fmt.Fprintf(&b, "\n```sh\n%s\n```\n", c.UseLine())
		}
		if c.Example != "" {
			fmt.Fprintf(&b, "\nExamples:\n\n```sh\n%s\n```\n", c.Example)
		}
		flags := 0
		c.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
			if f.Hidden || f.Name == "help" {
				return
			}
			if flags++; flags == 1 {
				b.WriteString("\n| flag | |\n| --- | --- |\n")
			}
			value, usage := pflag.UnquoteUsage(f)
			fmt.Fprintf(&b, "| `--%s` | %s |\n", strings.TrimSpace(f.Name+" "+value), strings.ReplaceAll(usage, "|", `\|`))
		})
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(cli.Commands())
	return b.String(), nil
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// routes describes the HTTP API.
func routes() (string, error) {
	raw, err := httpapi.Document()
	if err != nil {
		return "", err
	}
	var doc struct {
		Paths map[string]map[string]struct {
			Summary, Description string
			Parameters           []struct {
				Name, In, Description string
			}
		}
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("# HTTP API\n\nA running server describes these routes with all fields as an OpenAPI document at `GET /openapi.json`. Send the token of the data directory\n" +
		"as `Authorization: Bearer TOKEN`.\n")
	paths := make([]string, 0, len(doc.Paths))
	for path := range doc.Paths {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	for _, path := range paths {
		for _, method := range []string{"get", "post", "put", "patch", "delete"} {
			operation, ok := doc.Paths[path][method]
			if !ok {
				continue
			}
			fmt.Fprintf(&b, "\n## `%s %s`\n\n%s %s\n", strings.ToUpper(method), path, operation.Summary, operation.Description)
			if len(operation.Parameters) == 0 {
				continue
			}
			b.WriteString("\n| parameter | in | |\n| --- | --- | --- |\n")
			for _, p := range operation.Parameters {
				fmt.Fprintf(&b, "| `%s` | %s | %s |\n", p.Name, p.In, strings.ReplaceAll(p.Description, "|", `\|`))
			}
		}
	}
	return b.String(), nil
}
