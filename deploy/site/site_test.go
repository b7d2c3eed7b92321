package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func read(t *testing.T, dir, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// The site of this clone can be built: every link leads somewhere, and every page of docs/ is
// in it.
func TestTheSiteIsComplete(t *testing.T) {
	dir := t.TempDir()
	if err := write(filepath.Join("..", ".."), dir); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{
		"index.html":         {"<title>", `<h2>Start</h2>`, `<h2>Guides</h2>`, `<h2>Reference</h2>`, `<h2>Explanation</h2>`, `aria-current="page"`},
		"commands.html":      {"lilac update", "<code>--check</code>"},
		"http.html":          {"POST /sessions/{id}/prompt"},
		"examples.html":      {`id="ci-watcheryaml"`},
		"llms.txt":           {"# Lilac\n\n> ", "](index.md)", "## Reference"},
		"search.js":          {"search.json"},
		"configuration.html": {"LILAC_MODEL"},
	} {
		content := read(t, dir, name)
		for _, part := range want {
			if !strings.Contains(content, part) {
				t.Errorf("%s does not contain %q", name, part)
			}
		}
	}
	var index []entry
	if err := json.Unmarshal([]byte(read(t, dir, "search.json")), &index); err != nil || len(index) < 100 {
		t.Errorf("the search has %d sections: %v", len(index), err)
	}
	all, _ := filepath.Glob(filepath.Join("..", "..", "docs", "*.md"))
	for _, path := range all {
		if name := filepath.Base(path); name != "recipes.md" && !strings.Contains(read(t, dir, "llms.txt"), strings.TrimSuffix(name, ".md")) && name != "start.md" {
			t.Errorf("%s is not in the site", name)
		}
	}
}

func TestControlBrokenLinksAreReported(t *testing.T) {
	root := t.TempDir()
	for _, part := range parts {
		for _, p := range part.pages {
			if p[1] == "" {
				continue
			}
			path := filepath.Join(root, p[1])
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			text := "# T\n\n## A section\n\n[ok](#a-section)\n"
			if p[1] == "docs/start.md" {
				text += "\n[one](gone.md) [two](install.md#gone) [three](install.md#a-section)\n"
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	err := write(root, t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "gone.md, which does not exist") || !strings.Contains(err.Error(), "install.md#gone, which has no such section") ||
		strings.Count(err.Error(), "links to") != 2 {
		t.Errorf("the error is %v", err)
	}
}
