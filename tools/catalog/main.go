// Command catalog writes internal/model/catalog/catalog.json, in the shape of
// models.dev/api.json, from the Go module charm.land/catwalk and from the supplement next
// to the written file.
package main

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"charm.land/catwalk/pkg/catwalk"
	"charm.land/catwalk/pkg/embedded"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: catalog DIRECTORY")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "catalog:", err)
		os.Exit(1)
	}
}

type (
	source struct {
		Date    string   `json:"date"`
		From    []string `json:"from"`
		License string   `json:"license,omitempty"`
	}
	provider struct {
		ID     string            `json:"id"`
		Name   string            `json:"name"`
		API    string            `json:"api,omitempty"`
		Models map[string]*model `json:"models"`
	}
	model struct {
		ID         string     `json:"id"`
		Name       string     `json:"name,omitempty"`
		Attachment bool       `json:"attachment"`
		Reasoning  bool       `json:"reasoning"`
		ToolCall   bool       `json:"tool_call"`
		Modalities modalities `json:"modalities"`
		Limit      limit      `json:"limit"`
		Cost       *cost      `json:"cost,omitempty"`
	}
	modalities struct {
		Input  []string `json:"input"`
		Output []string `json:"output"`
	}
	limit struct {
		Context int `json:"context"`
		Output  int `json:"output"`
	}
	cost struct {
		Input      float64  `json:"input"`
		Output     float64  `json:"output"`
		CacheRead  *float64 `json:"cache_read,omitempty"`
		CacheWrite *float64 `json:"cache_write,omitempty"`
	}
)

func run(dir string) error {
	version, err := catwalkVersion()
	if err != nil {
		return err
	}
	all := map[string]*provider{}
	for _, p := range embedded.GetAll() {
		all[string(p.ID)] = convert(p)
	}
	extra, err := supplement(filepath.Join(dir, "supplement.json"), all)
	if err != nil {
		return err
	}
	about := source{
		Date:    extra.Date,
		From:    append([]string{"charm.land/catwalk " + version + " (figures of catwalk.charm.sh)"}, extra.From...),
		License: "catwalk: MIT, Copyright (c) 2025 Charmbracelet, Inc",
	}
	text, err := encode(about, all)
	if err != nil {
		return err
	}
	packed, err := pack(text)
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(filepath.Join(dir, "catalog.json"), text, 0o644), os.WriteFile(filepath.Join(dir, "catalog.json.gz"), packed, 0o644))
}

// catwalkVersion returns the version of catwalk in go.mod, and its date.
func catwalkVersion() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Version}} of {{.Time.Format \"2006-01-02\"}}", "charm.land/catwalk").Output()
	if err != nil {
		return "", fmt.Errorf("find the version of catwalk: %w", err)
	}
	return string(bytes.TrimSpace(out)), nil
}

func convert(p catwalk.Provider) *provider {
	out := &provider{ID: string(p.ID), Name: p.Name, Models: map[string]*model{}}
	if strings.HasPrefix(p.APIEndpoint, "https://") {
		out.API = p.APIEndpoint
	}
	for _, m := range p.Models {
		c := &model{
			ID: m.ID, Name: m.Name, Attachment: m.SupportsImages, Reasoning: m.CanReason,
			ToolCall:   true, // catwalk lists only models that call tools
			Modalities: modalities{Input: inputs(m), Output: []string{"text"}},
			Limit:      limit{Context: int(m.ContextWindow), Output: int(m.DefaultMaxTokens)},
			Cost:       price(m),
		}
		if most := dearerAbove(m.ID); c.Cost != nil && most > 0 {
			c.Limit.Context = min(c.Limit.Context, most)
		}
		c.Limit.Output = min(c.Limit.Output, c.Limit.Context)
		out.Models[m.ID] = c
	}
	return out
}

// inputs returns what a model accepts. Catwalk knows images only; the vendors document
// the rest for all of their models that see.
func inputs(m catwalk.Model) []string {
	out := []string{"text"}
	if !m.SupportsImages {
		return out
	}
	out = append(out, "image")
	switch name := familyName(m.ID); {
	case strings.HasPrefix(name, "gemini"):
		out = append(out, "pdf", "audio")
	case strings.HasPrefix(name, "claude"), strings.HasPrefix(name, "gpt-4o"), strings.HasPrefix(name, "gpt-4.1"),
		strings.HasPrefix(name, "gpt-5"), strings.HasPrefix(name, "o3"), strings.HasPrefix(name, "o4"):
		out = append(out, "pdf")
	}
	return out
}

// familyName returns the name of a model without vendors and regions before it.
func familyName(id string) string {
	id = strings.ToLower(id[strings.LastIndexByte(id, '/')+1:])
	for _, vendor := range []string{"anthropic.", "openai.", "google."} {
		if _, after, ok := strings.Cut(id, vendor); ok {
			return after
		}
	}
	return id
}

// dearerAbove returns the length of a prompt above which a model costs more, or 0. The
// catalog states that length as the window, so that its price is always right.
func dearerAbove(id string) int {
	name := strings.ReplaceAll(familyName(id), ".", "-")
	for _, f := range []struct {
		prefix string
		tokens int
	}{
		{"gpt-5-4", 272_000},
		{"gpt-5-5", 272_000},
		{"gpt-5-6", 272_000},
		{"gemini-2-5-pro", 200_000},
		{"gemini-3-pro", 200_000},
		{"gemini-3-1-pro", 200_000},
		{"claude-sonnet-4", 200_000},
		{"grok-4", 200_000},
	} {
		if name == f.prefix || strings.HasPrefix(name, f.prefix+"-") {
			return f.tokens
		}
	}
	return 0
}

// price returns the price of a model, or nil if catwalk does not know it. Catwalk has two
// figures for cached input, whose meaning differs between its providers: a figure below
// the price of input is that of a read, one above it that of a write.
func price(m catwalk.Model) *cost {
	if m.CostPer1MIn == 0 && m.CostPer1MOut == 0 && !strings.HasSuffix(m.ID, ":free") {
		return nil
	}
	out := &cost{Input: round(m.CostPer1MIn), Output: round(m.CostPer1MOut)}
	for _, cached := range []float64{m.CostPer1MOutCached, m.CostPer1MInCached} {
		switch {
		case cached <= 0:
		case cached < m.CostPer1MIn:
			out.CacheRead = new(round(cached))
		case cached <= 2*m.CostPer1MIn && cached < m.CostPer1MOut:
			out.CacheWrite = new(round(cached))
		}
	}
	return out
}

// round removes the error of figures that were computed from prices per token.
func round(dollars float64) float64 { return math.Round(dollars*1e6) / 1e6 }

// supplement adds figures from the vendors' own pages, which win over those of catwalk.
func supplement(path string, all map[string]*provider) (source, error) {
	var file struct {
		Source    source              `json:"$source"`
		Providers map[string]provider `json:"providers"`
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return source{}, err
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&file); err != nil {
		return source{}, fmt.Errorf("%s: %w", path, err)
	}
	for id, p := range file.Providers {
		if all[id] == nil {
			all[id] = &provider{ID: id, Name: cmp.Or(p.Name, id), API: p.API, Models: map[string]*model{}}
		}
		for name, m := range p.Models {
			m.ID = name
			if m.Name == "" && all[id].Models[name] != nil {
				m.Name = all[id].Models[name].Name
			}
			m.Modalities.Output = []string{"text"}
			m.Attachment = len(m.Modalities.Input) > 1
			all[id].Models[name] = m
		}
	}
	return file.Source, nil
}

// encode writes one model per line, so that changes are easy to review.
func encode(about source, all map[string]*provider) ([]byte, error) {
	var out bytes.Buffer
	line := func(indent, key string, v any) error {
		name, err := json.Marshal(key)
		if err != nil {
			return err
		}
		var text bytes.Buffer
		encoder := json.NewEncoder(&text)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(v); err != nil {
			return err
		}
		fmt.Fprintf(&out, "%s%s: %s", indent, name, bytes.TrimSpace(text.Bytes()))
		return nil
	}
	out.WriteString("{\n")
	if err := line("  ", "$source", about); err != nil {
		return nil, err
	}
	for _, id := range slices.Sorted(maps.Keys(all)) {
		p := all[id]
		if len(p.Models) == 0 {
			continue
		}
		fmt.Fprintf(&out, ",\n  %q: {\n", id)
		for _, field := range [][2]string{{"id", p.ID}, {"name", p.Name}, {"api", p.API}} {
			if field[1] == "" {
				continue
			}
			if err := line("    ", field[0], field[1]); err != nil {
				return nil, err
			}
			out.WriteString(",\n")
		}
		out.WriteString("    \"models\": {\n")
		for i, name := range slices.Sorted(maps.Keys(p.Models)) {
			if i > 0 {
				out.WriteString(",\n")
			}
			if err := line("      ", name, p.Models[name]); err != nil {
				return nil, err
			}
		}
		out.WriteString("\n    }\n  }")
	}
	out.WriteString("\n}\n")
	return out.Bytes(), nil
}

// pack returns a text in gzip's format, as the program contains it.
func pack(text []byte) ([]byte, error) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	_, err = w.Write(text)
	err = errors.Join(err, w.Close())
	return out.Bytes(), err
}
