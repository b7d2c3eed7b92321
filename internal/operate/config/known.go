package config

import (
	"strings"

	"lilac/internal/foundation/lazyregexp"
)

// A fact holds the public figures of a family of models.
type fact struct {
	prefix          string
	contextTokens   int
	maxOutputTokens int
	price           Price
}

// knownModels lists the public figures of well-known models, as of November 2026. They are
// defaults; the models section of the configuration overrides them.
//
// If a provider charges more for longer prompts, contextTokens is the length at which the higher
// price starts, so that the price given here is always correct. To use longer prompts, set both
// the context and the price in the models section.
var knownModels = []fact{
	// platform.claude.com/docs/en/about-claude/pricing and .../docs/en/models/overview. Cache
	// writes have the price of the five-minute cache, which Lilac requests.
	{"claude-fable-5-1", 1_000_000, 128_000, Price{10, 50, 0.25, 12.5}},
	{"claude-fable-5", 1_000_000, 128_000, Price{10, 50, 1, 12.5}},
	{"claude-opus-5-5", 1_000_000, 128_000, Price{4, 20, 0.2, 5}},
	{"claude-opus-5", 1_000_000, 128_000, Price{5, 25, 0.5, 6.25}},
	{"claude-opus-4-8", 200_000, 64_000, Price{5, 25, 0.5, 6.25}},
	{"claude-opus-4-7", 200_000, 64_000, Price{5, 25, 0.5, 6.25}},
	{"claude-opus-4-6", 200_000, 64_000, Price{5, 25, 0.5, 6.25}},
	{"claude-opus-4-5", 200_000, 64_000, Price{5, 25, 0.5, 6.25}},
	{"claude-opus-4-1", 200_000, 32_000, Price{15, 75, 1.5, 18.75}},
	{"claude-opus-4", 200_000, 32_000, Price{15, 75, 1.5, 18.75}},
	{"claude-sonnet-5-5", 1_000_000, 128_000, Price{2, 10, 0.1, 2.5}},
	{"claude-sonnet-5", 1_000_000, 128_000, Price{2, 10, 0.2, 2.5}},
	{"claude-sonnet-4-6", 200_000, 64_000, Price{3, 15, 0.3, 3.75}},
	{"claude-sonnet-4-5", 200_000, 64_000, Price{3, 15, 0.3, 3.75}},
	{"claude-sonnet-4", 200_000, 64_000, Price{3, 15, 0.3, 3.75}},
	{"claude-haiku-5-5", 100_000, 64_000, Price{0.1, 0.5, 0.01, 0.125}},
	{"claude-haiku-4-5", 200_000, 64_000, Price{1, 5, 0.1, 1.25}},

	// developers.openai.com/api/docs/pricing and .../docs/models/NAME. Cache writes cost as much
	// as normal input. Newer models are not listed: they support tools only over another protocol
	// (developers.openai.com/api/docs/models/gpt-6.1-sol), or with an effort that Lilac does not
	// send.
	{"gpt-5.4", 272_000, 128_000, Price{2.5, 15, 0.25, 2.5}},
	{"gpt-5.4-mini", 272_000, 128_000, Price{0.75, 4.5, 0.075, 0.75}},
	{"gpt-5.1", 400_000, 128_000, Price{1.25, 10, 0.125, 1.25}},
	{"gpt-5", 400_000, 128_000, Price{1.25, 10, 0.125, 1.25}},
	{"gpt-5-mini", 400_000, 128_000, Price{0.25, 2, 0.025, 0.25}},
	{"gpt-5-nano", 400_000, 128_000, Price{0.05, 0.4, 0.005, 0.05}},
	{"gpt-4.1", 1_047_576, 32_768, Price{2, 8, 0.5, 2}},
	{"gpt-4.1-mini", 1_047_576, 32_768, Price{0.4, 1.6, 0.1, 0.4}},
	{"gpt-4o", 128_000, 16_384, Price{2.5, 10, 1.25, 2.5}},
	{"gpt-4o-mini", 128_000, 16_384, Price{0.15, 0.6, 0.075, 0.15}},
	{"o3", 200_000, 100_000, Price{2, 8, 0.5, 2}},

	// ai.google.dev/gemini-api/docs/pricing and .../docs/models. The price of 3.8 Flash is that
	// from January 2027; until then, Google charges half of it.
	{"gemini-3.8-flash", 1_048_576, 65_536, Price{1.5, 7.5, 0.15, 1.5}},
	{"gemini-2.5-pro", 200_000, 65_536, Price{1.25, 10, 0.125, 1.25}},
	{"gemini-2.5-flash", 1_048_576, 65_536, Price{0.3, 2.5, 0.03, 0.3}},
	{"gemini-2.5-flash-lite", 1_048_576, 65_536, Price{0.1, 0.4, 0.01, 0.1}},
}

// Default sizes for an unknown model. They are small enough for most models; if a prompt is still
// too long, it is compacted when the provider reports that.
const (
	unknownContextTokens   = 128_000
	unknownMaxOutputTokens = 8_192
)

// sameModel matches the suffixes that do not turn a family's name into another model with another
// price: nothing, a date, or "latest". A higher version may cost more, so it does not match.
var sameModel = lazyregexp.New(`^(-latest|[-@][0-9]{8}|-[0-9]{4}-[0-9]{2}-[0-9]{2})*$`)

// lookupKnown returns the sizes of the family with the longest matching prefix. It returns the
// price only if the rest of the name denotes the same model, because a wrong price would make a
// limit on money useless.
func lookupKnown(name string) (sizes Model, found bool) {
	var best fact
	for _, f := range knownModels {
		if strings.HasPrefix(name, f.prefix) && len(f.prefix) > len(best.prefix) {
			best = f
		}
	}
	if best.prefix == "" {
		return Model{ContextTokens: unknownContextTokens, MaxOutputTokens: unknownMaxOutputTokens}, false
	}
	out := Model{ContextTokens: best.contextTokens, MaxOutputTokens: best.maxOutputTokens}
	if sameModel().MatchString(name[len(best.prefix):]) {
		price := best.price
		out.Price = &price
	}
	return out, true
}
