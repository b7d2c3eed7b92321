package config

import (
	"fmt"
	"os"

	"lilac/internal/foundation/fault"
	"lilac/internal/model/catalog"
)

// Default sizes for an unknown model. They are small enough for most models; if a prompt is still
// too long, it is compacted when the provider reports that.
const (
	unknownContextTokens   = 128_000
	unknownMaxOutputTokens = 8_192
)

// maxCatalogBytes bounds the size of a catalog. The one of models.dev has about 2 MiB.
const maxCatalogBytes = 32 << 20

// loadCatalog reads the file that replaces the built-in catalog.
func (c *Config) loadCatalog() error {
	if c.Catalog == "" {
		return nil
	}
	info, err := os.Stat(c.Catalog)
	if err != nil {
		return fault.InvalidField("catalog", "The catalog %s cannot be read: %s.", c.Catalog, withoutPath(err))
	}
	if !info.Mode().IsRegular() || info.Size() > maxCatalogBytes {
		return fault.InvalidField("catalog", "The catalog %s is not a regular file of at most %d MiB.", c.Catalog, maxCatalogBytes>>20)
	}
	data, err := os.ReadFile(c.Catalog)
	if err != nil {
		return fault.InvalidField("catalog", "The catalog %s cannot be read: %s.", c.Catalog, withoutPath(err))
	}
	if c.facts, err = catalog.Parse(data); err != nil {
		return fault.InvalidField("catalog", "The catalog %s cannot be used: %s. It must have the shape of https://models.dev/api.json.", c.Catalog, err)
	}
	return nil
}

// Facts returns the catalog in force: the configured file, or else the built-in one.
func (c *Config) Facts() *catalog.Catalog {
	if c.facts != nil {
		return c.facts
	}
	return catalog.Builtin()
}

// applyFacts fills in what the catalog knows about a model.
func (m *ModelChoice) applyFacts(facts catalog.Model, known bool) {
	if !known && m.Type == Anthropic {
		facts.Images, facts.PDFs = true, true // all of Anthropic's models; a refusal is remembered
	}
	m.Facts, m.ContextUnknown = facts, !known || facts.ContextTokens == 0
	m.ContextTokens, m.MaxOutputTokens, m.Images = facts.ContextTokens, facts.MaxOutputTokens, facts.Images
	if m.ContextTokens == 0 {
		m.ContextTokens = unknownContextTokens
	}
	if m.MaxOutputTokens == 0 {
		m.MaxOutputTokens = unknownMaxOutputTokens
	}
	m.MaxOutputTokens = min(m.MaxOutputTokens, m.ContextTokens)
	if p := facts.Price; p != nil {
		m.Price = &Price{Input: p.Input, Output: p.Output, CacheRead: p.CacheRead, CacheWrite: p.CacheWrite}
	}
}

// CatalogSource says where the facts about models are from.
func (c *Config) CatalogSource() string {
	if c.Catalog != "" {
		return fmt.Sprintf("%s (%s)", c.Catalog, c.Facts().Source)
	}
	return "built in: " + c.Facts().Source.String()
}
