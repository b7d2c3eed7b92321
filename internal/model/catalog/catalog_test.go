package catalog_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/model/catalog"
)

func TestTheBuiltinCatalogStatesItsSource(t *testing.T) {
	c := catalog.Builtin()
	if c.Source.Date == "" || !strings.Contains(c.Source.String(), "catwalk") {
		t.Errorf("the source is %q", c.Source)
	}
	for _, q := range []catalog.Query{
		{Provider: "anthropic", BaseURL: "https://api.anthropic.com"},
		{Provider: "mine", BaseURL: "https://openrouter.ai/api/v1"},
	} {
		if n := len(c.Offers(q)); n < 10 {
			t.Errorf("%+v has %d models", q, n)
		}
	}
}

func TestFind(t *testing.T) {
	const file = `{
		"$source": {"date": "2026-01-02", "from": ["here"]},
		"anthropic": {"models": {
			"claude-sonnet-5-5": {"attachment": true, "reasoning": true, "tool_call": true, "modalities": {"input": ["text", "image", "pdf"]}, "limit": {"context": 1000, "output": 100}, "cost": {"input": 2, "output": 10, "cache_read": 0.2, "cache_write": 2.5}},
			"claude-opus-4-1-20250805": {"limit": {"context": 1000, "output": 100}, "cost": {"input": 1, "output": 1}}
		}},
		"openai": {"models": {
			"gpt-5": {"limit": {"context": 400, "output": 40}, "cost": {"input": 1, "output": 2}},
			"gpt-5-mini": {"tool_call": false, "limit": {"context": 300, "output": 30}, "cost": {"input": 0.5, "output": 1}}
		}},
		"google": {"models": {"gemini-3-flash": {"modalities": {"input": ["text", "audio"]}, "limit": {"context": 9, "output": 8}}}},
		"router": {"api": "https://router.example/v1", "models": {
			"anthropic/claude-sonnet-5.5": {"limit": {"context": 500, "output": 50}, "cost": {"input": 3, "output": 30}},
			"meta-llama/llama-4": {"limit": {"context": 77, "output": 7}, "cost": {"input": 9, "output": 9}}
		}}
	}`
	c, err := catalog.Parse([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name     string
		provider string
		base     string
		model    string
		id       string
		context  int
		priced   bool
	}{
		{"its own provider", "anthropic", "https://api.anthropic.com", "claude-sonnet-5-5", "claude-sonnet-5-5", 1000, true},
		{"a date in the name", "openai", "https://api.openai.com/v1", "gpt-5-2025-08-07", "gpt-5", 400, true},
		{"a date in the catalog", "anthropic", "https://api.anthropic.com", "claude-opus-4-1", "claude-opus-4-1-20250805", 1000, true},
		{"the address decides, not the name", "mine", "https://router.example/v1", "anthropic/claude-sonnet-5.5", "anthropic/claude-sonnet-5.5", 500, true},
		{"a vendor at an unknown host", "gateway", "https://gw.example/v1", "anthropic/claude-sonnet-5.5", "claude-sonnet-5-5", 1000, true},
		{"two vendors in the name", "gateway", "https://gw.example/v1", "openrouter/openai/gpt-5", "gpt-5", 400, true},
		{"no vendor at an unknown host", "gateway", "https://gw.example/v1", "gpt-5-mini", "gpt-5-mini", 300, true},
		{"Bedrock's names", "aws", "https://bedrock-runtime.us-east-1.amazonaws.com/openai/v1", "us.anthropic.claude-sonnet-5-5-v1:0", "claude-sonnet-5-5", 1000, true},
		{"an inference profile", "aws", "https://bedrock-runtime.eu-central-1.amazonaws.com/openai/v1", "arn:aws:bedrock:eu-central-1:123456789012:inference-profile/eu.anthropic.claude-sonnet-5-5-v1:0", "claude-sonnet-5-5", 1000, true},
		{"Vertex's names", "vertex", "https://europe-west1-aiplatform.googleapis.com/v1/projects/p/locations/europe-west1", "claude-opus-4-1@20250805", "claude-opus-4-1-20250805", 1000, true},
		{"Gemini's names", "gemini", "https://generativelanguage.googleapis.com/v1beta/openai", "models/gemini-3-flash", "gemini-3-flash", 9, false},
		{"another model of a family", "openai", "https://api.openai.com/v1", "gpt-5-pro", "gpt-5", 400, false},
		{"a version is no date", "openai", "https://api.openai.com/v1", "gpt-5.7", "gpt-5", 400, false},
		{"a model that only a router lists", "local", "http://127.0.0.1:1/v1", "meta-llama/llama-4", "meta-llama/llama-4", 77, false},
		{"an unknown model", "openai", "https://api.openai.com/v1", "zebra", "", 0, false},
		{"an empty name", "openai", "https://api.openai.com/v1", "", "", 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, found := c.Find(catalog.Query{Provider: tt.provider, BaseURL: tt.base, Model: tt.model})
			if m.ID != tt.id || found != (tt.id != "") || m.ContextTokens != tt.context || (m.Price != nil) != tt.priced {
				t.Errorf("found %+v (%v)", m, found)
			}
		})
	}
	got, _ := c.Find(catalog.Query{Provider: "anthropic", Model: "claude-sonnet-5-5"})
	want := catalog.Model{
		ID: "claude-sonnet-5-5", Provider: "anthropic", ContextTokens: 1000, MaxOutputTokens: 100,
		Price: &catalog.Price{Input: 2, Output: 10, CacheRead: 0.2, CacheWrite: 2.5}, Images: true, PDFs: true, Thinking: true, Tools: true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("facts (-want +got):\n%s", diff)
	}
	if mini, _ := c.Find(catalog.Query{Provider: "openai", Model: "gpt-5-mini"}); mini.Tools {
		t.Error("a model without tools has tools")
	}
}

func TestParseRefusesWhatIsNoCatalog(t *testing.T) {
	for _, file := range []string{``, `[]`, `{}`, `{"a": 1}`, `{"a": {"models": []}}`, `{"a": {"models": {"m": {"limit": "x"}}}}`} {
		if c, err := catalog.Parse([]byte(file)); err == nil {
			t.Errorf("%s is a catalog: %+v", file, c)
		}
	}
}

func FuzzFind(f *testing.F) {
	f.Add("openai", "https://api.openai.com/v1", "gpt-5.4-2026-01-01")
	f.Add("x", "http://[::1]:namedport", "a/b/c.d.e")
	f.Fuzz(func(t *testing.T, provider, base, model string) {
		m, found := catalog.Builtin().Find(catalog.Query{Provider: provider, BaseURL: base, Model: model})
		if found != (m.ID != "") {
			t.Errorf("found %v: %+v", found, m)
		}
	})
}

func TestThePackedCatalogIsTheReadableOne(t *testing.T) {
	packed, err := os.ReadFile("catalog.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	readable, err := os.ReadFile("catalog.json")
	if err != nil {
		t.Fatal(err)
	}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(r); err != nil || !bytes.Equal(text, readable) {
		t.Errorf("%v: they differ; run go generate ./internal/model/catalog", err)
	}
}
