package llm_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/fault"
	"lilac/internal/model/llm"
)

func TestCost(t *testing.T) {
	full := &llm.Price{Input: 3, Output: 15, CacheRead: 0.3, CacheWrite: 3.75}
	for name, c := range map[string]struct {
		price *llm.Price
		usage chat.Usage
		want  int64
	}{
		"no price":              {nil, chat.Usage{InputTokens: 1000}, 0},
		"free":                  {&llm.Price{}, chat.Usage{InputTokens: 1000}, 0},
		"in and out":            {full, chat.Usage{InputTokens: 1000, OutputTokens: 100}, 4500},
		"cache":                 {full, chat.Usage{InputTokens: 1000, CacheReadTokens: 600, CacheWriteTokens: 100}, 900 + 180 + 375},
		"cache without a price": {&llm.Price{Input: 3, Output: 15}, chat.Usage{InputTokens: 1000, CacheReadTokens: 600}, 3000},
		"rounded up":            {&llm.Price{Input: 0.1}, chat.Usage{InputTokens: 1}, 1},
		"a whole number stays":  {&llm.Price{Input: 0.1}, chat.Usage{InputTokens: 30}, 3},
		"more cached than read": {full, chat.Usage{InputTokens: 1, CacheReadTokens: 10}, 3},
	} {
		if got := c.price.Cost(c.usage); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// What a provider said is a sentence, behind which another one may stand.
func TestProviderMessageEndsAsSentence(t *testing.T) {
	_, wire := llm.Options{Model: "m"}.Endpoint("acme", "Acme")
	for said, want := range map[string]string{
		"":          "Acme has trouble at the moment.",
		"It broke":  "Acme has trouble at the moment: It broke.",
		"It broke.": "Acme has trouble at the moment: It broke.",
		"Why?":      "Acme has trouble at the moment: Why?",
	} {
		var failed *fault.Error
		if err := wire.Fault(llm.ProviderError{Status: 500, Message: said}); !errors.As(err, &failed) || failed.Message != want {
			t.Errorf("%q became %q, want %q", said, err, want)
		}
	}
}

// OPENAI_BASE_URL may name another server. Who reads "OpenAI has trouble" believes that OpenAI was called.
func TestServersAreNamedByTheirHost(t *testing.T) {
	for address, want := range map[string]string{"": "OpenAI", "https://eu.api.openai.com/v1": "OpenAI", "http://127.0.0.1:11434/v1": "127.0.0.1:11434"} {
		if _, e := (llm.Options{Provider: "openai", BaseURL: address}).Endpoint("openai", "OpenAI"); e.Vendor != want {
			t.Errorf("%q is called %q, want %q", address, e.Vendor, want)
		}
	}
	_, e := llm.Options{Provider: "openai", APIKey: "ollama", Model: "m"}.Endpoint("openai", "OpenAI")
	if got := e.Fault(llm.ProviderError{Status: 500, Message: "ollama is busy"}).Error(); !strings.Contains(got, "ollama is busy") {
		t.Errorf("a key that is a word is removed: %q", got)
	}
	_, e = llm.Options{Provider: "openai", APIKey: "s3cret", Model: "m"}.Endpoint("openai", "OpenAI")
	if got := e.Fault(llm.ProviderError{Status: 500, Message: "s3cret is busy"}).Error(); strings.Contains(got, "s3cret") {
		t.Errorf("a short key is shown: %q", got)
	}
}

func TestPriceLookup(t *testing.T) {
	p := llm.Prices{"anthropic/*": {Input: 1}, "claude-*": {Input: 2}, "anthropic/claude-x*": {Input: 3}, "claude-y": {Input: 4}, "gpt": {Input: 5}}
	for model, want := range map[string]float64{"z": 1, "claude-x-1": 3, "claude-y": 4} {
		if got := p.Lookup("anthropic", model); got == nil || got.Input != want {
			t.Errorf("%s: %+v", model, got)
		}
	}
	if got := p.Lookup("other", "claude-z"); got == nil || got.Input != 2 {
		t.Errorf("by model alone: %+v", got)
	}
	if got := p.Lookup("openai", "gpt-5"); got != nil {
		t.Errorf("a name without * is no pattern: %+v", got)
	}
}

func TestBackoffGrowsAndObeysContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		tries := 0
		begun := time.Now()
		attempt := func(context.Context, func(llm.Chunk) bool) error {
			tries++
			return fault.New(fault.Unavailable, "away")
		}
		var last error
		for _, err := range (llm.Retry{Max: 5, Base: time.Second, Cap: 4 * time.Second, Jitter: func() float64 { return 0 }}).Stream(ctx, attempt) {
			last = err
		}
		// Half of 1, 2, 4, 4, 4 seconds.
		if took := time.Since(begun); tries != 6 || took != 7500*time.Millisecond || fault.KindOf(last) != fault.Unavailable {
			t.Errorf("%d tries in %v: %v", tries, took, last)
		}
		short, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer stop()
		for _, err := range (llm.Retry{}).Stream(short, attempt) {
			last = err
		}
		if fault.KindOf(last) != fault.Timeout || !errors.Is(last, context.DeadlineExceeded) {
			t.Errorf("error is %v", last)
		}
	})
}

func TestProviderData(t *testing.T) {
	fields := map[string]json.RawMessage{"a": json.RawMessage(`1`)}
	options := llm.AddProviderData(llm.ProviderOptions("x", fields), "y", fields)
	if string(options) != `{"x":{"a":1},"y":{"a":1}}` || string(llm.ProviderData(options, "y")["a"]) != "1" {
		t.Errorf("options are %s", options)
	}
	for _, odd := range []string{``, `null`, `[]`, `{"x":5}`} {
		if got := llm.ProviderData(json.RawMessage(odd), "x"); len(got) != 0 {
			t.Errorf("%s holds %v", odd, got)
		}
	}
}
