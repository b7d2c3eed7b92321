package llm

import (
	"cmp"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"lilac/internal/foundation/lazyregexp"
)

// SmallWindow is the size, in tokens, below which a window has little room for a conversation: the
// agent's instructions and tools take about 5,000.
const SmallWindow = 16_000

// SmallWindowAdvice says how to give a model of one's own server a useful window.
const SmallWindowAdvice = "Give the model server a larger one, 32768 tokens or more (llama.cpp: --ctx-size, Ollama: OLLAMA_CONTEXT_LENGTH, vLLM: --max-model-len), or choose another model."

// contextCodes are the codes and types of errors about prompts that are too long, unless
// contextName recognizes them.
var contextCodes = map[string]bool{
	"request_too_large": true, // Anthropic
	"1261":              true, // Z.ai
	"1039":              true, // MiniMax
}

var (
	// contextName matches a code or a type such as context_length_exceeded,
	// ContextWindowExceededError, and exceed_context_size_error.
	contextName = lazyregexp.New(`(?i)(?:context|prompt|input|tokens?)(?: tokens?)?(?: (?:length|window|size|limit|count))?(?: is| was)? (?:exceed|too (?:long|large)|reached|overflow)|exceed\w* (?:the )?(?:max(?:imum)? )?(?:context|tokens)\b`)
	// promptWord names what can be too long. excess says that it is. Both are searched in
	// the words of the message; see spaced.
	promptWord = lazyregexp.New(`(?i)\b(?:prompts?|inputs?|contexts?|messages?|conversation|tokens?|sequence|request|payload|model len(?:gth)?)\b|max (?:model|seq) len`)
	excess     = lazyregexp.New(`(?i)too (?:long|large|many|big)|exceed|over(?:flow| the limit|size)|(?:longer|larger|greater|more|bigger|higher) than|maximum (?:of [0-9]|(?:supported |allowed )?(?:context|prompt|model|input|sequence|allowed|number of))|expected max(?:imum)? ?length|(?:must|should|has to) (?:have|be) (?:less|fewer|at most|no more|<=?|in(?:side)?|between|shorter)|cannot be (?:longer|larger)|reduce (?:the|your) (?:length|message|prompt|input|number of tokens)|range of input length|context (?:length|size|window|limit) of only|does(?: not|n't) fit|(?:shorter|fewer|less) (?:input|prompt|tokens|messages)|reached context length|no (?:room|space) left|model (?:only )?(?:allows|supports|accepts|can (?:only )?(?:handle|process|take))|supports? (?:only |up to |at most )|tokens? [0-9>]{0,9} ?> ?(?:max|[0-9])|but (?:the|this|its|our) (?:model's |maximum |max )?(?:context|limit|maximum|model)`)
	// lengthWord keeps refusals of other sizes (an image, a name, a count of tools)
	// from being taken for the length of the prompt.
	lengthWord = lazyregexp.New(`(?i)tokens?\b|context|prompt|\binput\b|max(?:imum)? length|conversation|max (?:model|seq) len|length of the messages|messages? (?:is|are) too|request (?:body )?too large|(?:body|entity) too large|payload size`)
	otherSize  = lazyregexp.New(`(?i)image|pixel|megabyte|\bmb\b|tool(?:s|_choice)?\b.{0,40}(?:too many|exceed|at most|array too long)|too many (?:tools|requests|images|messages in)|(?:function|tool) name|description'?: string|cache_key|per (?:minute|hour|day|second)|rate limit|\bquota\b|concurren|temperature|top_p|credit|balance|budget|spend|deadline|time(?:d |-)?out|duration|retry limit|recursion|queue|in flight|invalid token`)
	// certain matches sentences about the length of the prompt that may also mention images.
	certain = lazyregexp.New(`(?i)total tokens.{0,40}exceed|maximum context length|exceeds? (?:the |its |model's )*(?:available )?context (?:size|length|window)`)
	chinese = lazyregexp.New(`(?i)(?:上下文|输入|提示|对话|消息|prompt|tokens?).{0,12}(?:超长|超过|超出|超限|过长|太长)|长度(?:超限|超过|超出)`)
	// noOutputLeft matches servers that compute the output that is left behind the prompt,
	// and then refuse it, and those whose window became full during the answer.
	noOutputLeft = lazyregexp.New(`(?i)context shift is disabled|max_?(?:completion_|new_|output_)?tokens.{0,40}(?:at least|greater|positive|>).{0,40}-[0-9]`)
)

// isContextLength reports whether an error says that the prompt does not fit into the
// model's context window. It looks for a word for the prompt and a word for the excess,
// because every server has its own sentence.
func isContextLength(e ProviderError) bool {
	m := e.Message
	switch {
	case contextCodes[e.Code] || contextCodes[e.Type]:
		return true
	case e.Code == "string_above_max_length" || strings.Contains(m, "string too long"):
		return isContentPath(cmp.Or(e.Param, quotedPath(m)))
	case e.Status == http.StatusRequestEntityTooLarge && !otherSize().MatchString(m):
		return true
	case requestTooLarge().MatchString(m):
		return true
	}
	switch e.Status {
	case http.StatusTooManyRequests, http.StatusPaymentRequired, http.StatusUnauthorized, http.StatusForbidden:
		return false
	}
	if contextName().MatchString(spaced(e.Code)) || contextName().MatchString(spaced(e.Type)) || chinese().MatchString(m) || noOutputLeft().MatchString(m) {
		return true
	}
	words := spaced(m)
	return promptWord().MatchString(words) && excess().MatchString(words) && lengthWord().MatchString(words) &&
		(!otherSize().MatchString(m) || certain().MatchString(m)) && !isOutputLimit(m)
}

// IsBodyTooLarge reports whether a refusal is about the size of the body in bytes, of which
// images are most, and not about tokens.
func IsBodyTooLarge(err error) bool {
	var e *ProviderError
	return errors.As(err, &e) && (e.Status == http.StatusRequestEntityTooLarge || payloadSize().MatchString(e.Message)) && !tokenWord().MatchString(e.Message)
}

var (
	payloadSize = lazyregexp.New(`(?i)(?:payload|body|entity) (?:size|too large)|[0-9] ?(?:bytes|MB|MiB)\b`)
	tokenWord   = lazyregexp.New(`(?i)tokens?\b|context (?:length|window|size)`)
)

// isContentPath reports whether a path leads to the text of a conversation rather than to a
// name or an id. An unknown path may.
func isContentPath(path string) bool {
	last := path[strings.LastIndexAny(path, ".]")+1:]
	return last == "" || slices.Contains([]string{"content", "text", "input", "output", "arguments", "instructions", "messages"}, last)
}

var inQuotes = lazyregexp.New(`'([^' ]+)'`)

func quotedPath(message string) string {
	if m := inQuotes().FindStringSubmatch(message); m != nil {
		return m[1]
	}
	return ""
}

var wordEnd = lazyregexp.New(`([a-z])([A-Z])`)

// spaced separates the words of names: input_tokens and ContextWindowExceeded.
func spaced(s string) string {
	return wordEnd().ReplaceAllString(strings.ReplaceAll(s, "_", " "), "$1 $2")
}

// requestTooLarge matches a single request that exceeds a limit of tokens per minute:
// it can never succeed, unlike others with the same status.
var requestTooLarge = lazyregexp.New(`(?i)request too large for|(?:reduce your message size|tokens must be reduced in order to run)`)

var (
	// outputLimits match refusals of the requested output alone, also in sentences that
	// mention the prompt. The group is the most that the model can write.
	outputLimits = lazyregexp.New(`(?i)at most ([0-9][0-9,_]*) (?:completion|output) tokens|> ([0-9][0-9,_]*), which is the maximum allowed number of output|max_(?:completion_|output_|new_)?tokens\b[^0-9]{0,60}\[[0-9]+, ?([0-9][0-9,_]*)\]|max_(?:completion_|output_|new_)?tokens\W{0,12}(?:must|should) be (?:less than or equal to|at most|<=|no more than|between [0-9]+ and) \W?([0-9][0-9,_]*)|max_(?:completion_|output_|new_)?tokens\b.{0,40}(?:exceeds?|greater than|larger than|above) (?:the )?(?:limit|maximum)(?: output)?(?: tokens)?(?: of| \()? ?([0-9][0-9,_]*)`)
	// outputName matches a name of the requested output, and promptToo a sentence that is
	// also about the prompt.
	outputName = lazyregexp.New(`(?i)\bmax_?(?:completion_?|output_?|new_?)?tokens\b|maximum tokens you requested|(?:completion|output) tokens`)
	promptToo  = lazyregexp.New(`(?i)context|prompt|messages?\b|\binputs?\b|max_(?:model|seq)_len|n_ctx|tokens? of \D|budget`)
)

func isOutputLimit(message string) bool { return outputLimit(message) > 0 }

// outputLimit returns the output limit that a refusal states, or 0.
func outputLimit(message string) int {
	if strings.Contains(message, "+ `max_new_tokens`") { // TGI limits the sum
		return 0
	}
	for _, group := range outputLimits().FindStringSubmatch(message) {
		if n := parseCount(group); n > 0 {
			return n
		}
	}
	message = strings.ReplaceAll(message, "Input should be", "should be") // a validator's sentence
	if !outputName().MatchString(message) || promptToo().MatchString(message) {
		return 0
	}
	least := 0 // the other number, if there is one, is what was requested
	for _, n := range counts(message) {
		if n >= minOutput && (least == 0 || n < least) {
			least = n
		}
	}
	if least > 0 && strings.Contains(message, strconv.Itoa(least)+" (exclusive)") {
		least--
	}
	return least
}

const (
	// minWindow is the smallest number that can be a context window; smaller numbers
	// in a refusal are error codes or the excess.
	minWindow = 2_048
	maxWindow = 100_000_000
)

// size matches a number of tokens: 8192, 8,192, 128k, or 1M.
const size = `([0-9][0-9,_]*(?:[kKM]\b)?)`

// windows match the size of the context window in a refusal, the most reliable first.
var windows = []func() *regexp.Regexp{
	lazyregexp.New(`(?i)n_ctx\W{1,3}` + size),
	lazyregexp.New(`(?i)max_(?:seq|model)_len\W{1,4}` + size),
	lazyregexp.New(`(?i)exceeds? context limit: [0-9]+ \+ [0-9]+ > ` + size),
	lazyregexp.New(`(?i)> ` + size + ` maximum`),
	lazyregexp.New(size + `(?i)(?: tokens?)? maximum context`),
	lazyregexp.New(`(?i)range of input length should be \[[0-9]+, ?` + size + `\]`),
	lazyregexp.New(`(?i)context length is only ` + size),
	lazyregexp.New(`(?i)max(?:imum)?(?: allowed| supported)?[ _](?:context|prompt|model|input|sequence)[ _]?(?:length|len|size|window|tokens)?[^0-9.]{0,30}?` + size),
	lazyregexp.New(`(?i)context (?:length|size|window|limit)[^0-9.]{0,20}?` + size),
	lazyregexp.New(`(?i)(?:token limit|limit for this model is|limit of|limit is|limit:?|maximum allowed[a-z ]*|maximum number of (?:input )?tokens(?: allowed)?:?|max size:?)[ (]*` + size),
	lazyregexp.New(`(?i)(?:cannot exceed|less than|fewer than|at most|<=|no more than|only supports(?: up to)?|supports up to|maximum(?: of| is))(?: the total tokens limit)? ` + size),
	lazyregexp.New(`(?i)context(?: is| of)?[ (]+` + size),
	lazyregexp.New(`(?:长度|上下文|限制)\D{0,8}` + size),
}

// contextWindow returns the size of the context window that a refusal states, in
// tokens, or 0.
func contextWindow(e ProviderError) int {
	if e.ContextTokens >= minWindow {
		return min(e.ContextTokens, maxWindow)
	}
	message := otherUnits().ReplaceAllString(e.Message, "")
	for _, window := range windows {
		if m := window().FindStringSubmatch(message); m != nil {
			if n := parseCount(m[1]); n >= minWindow && n <= maxWindow {
				return n
			}
		}
	}
	// Of two numbers of tokens, the greater one is the size of the prompt.
	if found := counts(message); len(found) == 2 && strings.Contains(strings.ToLower(message), "token") && min(found[0], found[1]) >= minWindow {
		return min(found[0], found[1], maxWindow)
	}
	return 0
}

// otherUnits matches numbers that are no numbers of tokens, and the excess.
var otherUnits = lazyregexp.New(`(?i)[0-9][0-9,_.]* ?(?:bytes|kib|kb|mib|mb|characters|chars|messages|images|seconds|ms|%)|characters is [0-9]+|\bby [0-9][0-9,_]*|-[0-9]+`)

// minOutput is the least output that is worth a call.
const minOutput = 256

// roomForOutput returns how much output fits behind a prompt that was refused only
// because the requested output made it too long, or 0. The refusal states the size of
// the prompt, or its sum with the requested output.
func roomForOutput(message string, window, requested int) int {
	if window <= 0 || requested <= 0 {
		return 0
	}
	prompt := 0
	found := counts(message)
	statesOutput := slices.Contains(found, requested)
	for _, n := range found {
		switch {
		case !statesOutput:
		case n > window && n > requested && n-requested < window:
			return enoughOutput(window - (n - requested))
		case n < window && n != requested && n+requested > window:
			prompt = max(prompt, n)
		}
	}
	if prompt == 0 {
		return 0
	}
	return enoughOutput(window - prompt)
}

// enoughOutput leaves a margin for tokens that the provider adds to a prompt.
func enoughOutput(room int) int {
	if room -= room/16 + 16; room < minOutput {
		return 0
	}
	return room
}

var numbers = lazyregexp.New(`[0-9][0-9,_]*(?:[kKM]\b)?`)

// counts returns the numbers in a message.
func counts(message string) []int {
	var out []int
	for _, s := range numbers().FindAllString(message, -1) {
		out = append(out, parseCount(s))
	}
	return out
}

// parseCount parses 8192, 8,192, 128k, and 1M, and returns 0 for anything else.
func parseCount(s string) int {
	unit := 1
	switch {
	case strings.HasSuffix(s, "k"), strings.HasSuffix(s, "K"):
		unit = 1_000
	case strings.HasSuffix(s, "M"):
		unit = 1_000_000
	}
	n, err := strconv.Atoi(strings.TrimRight(strings.NewReplacer(",", "", "_", "").Replace(s), "kKM"))
	if err != nil || n > maxWindow*10 {
		return 0
	}
	return n * unit
}
