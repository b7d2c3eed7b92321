package config

import (
	"strings"

	"lilac/internal/foundation/lazyregexp"
)

// fact is what is known of a family of models.
type fact struct {
	prefix          string
	contextTokens   int
	maxOutputTokens int
	price           Price
}

// knownModels are the public figures of well-known models, as of November 2026. They
// serve as defaults; the models section of the configuration wins.
//
// Where a provider charges more for longer prompts, the context is bounded by
// the length at which that begins, so that the price here is the whole truth.
// Whoever wants to pay for more sets both in models.
var knownModels = []fact{
	// platform.claude.com/docs/en/about-claude/pricing and .../docs/en/models/overview;
	// cache writes are those of five minutes, which is what is asked for.
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

	// developers.openai.com/api/docs/pricing and .../docs/models/NAME. Writing to
	// the cache costs nothing of its own. Models after these take tools over
	// another protocol only (developers.openai.com/api/docs/models/gpt-6.1-sol),
	// or with an effort that we do not send.
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

	// ai.google.dev/gemini-api/docs/pricing and .../docs/models. Of 3.8 Flash it is
	// the price from January 2027; until then half of it is charged.
	{"gemini-3.8-flash", 1_048_576, 65_536, Price{1.5, 7.5, 0.15, 1.5}},
	{"gemini-2.5-pro", 200_000, 65_536, Price{1.25, 10, 0.125, 1.25}},
	{"gemini-2.5-flash", 1_048_576, 65_536, Price{0.3, 2.5, 0.03, 0.3}},
	{"gemini-2.5-flash-lite", 1_048_576, 65_536, Price{0.1, 0.4, 0.01, 0.1}},
}

// Sizes of a model of which nothing is known: small enough for most, and a
// prompt that is too long is compacted when the provider says so.
const (
	unknownContextTokens   = 128_000
	unknownMaxOutputTokens = 8_192
)

// sameModel matches what may follow a family's name without making it another
// model with another price: nothing, a date or "latest". A higher version may
// cost more.
var sameModel = lazyregexp.New(`^(-latest|[-@][0-9]{8}|-[0-9]{4}-[0-9]{2}-[0-9]{2})*$`)

// lookupKnown returns the sizes of the longest family that name begins with,
// and its price only if the rest of the name says that it is the same model:
// a wrong price would make a limit on money worthless.
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
