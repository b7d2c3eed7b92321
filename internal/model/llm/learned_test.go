package llm_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/model/llm"
)

func TestRefusedFieldsAreLearned(t *testing.T) {
	fields := []string{"model", "messages", "stream", "stream_options", "max_tokens", "temperature", "tools", "role", "content", "reasoning", "reasoning_content", "extra_content"}
	for name, c := range map[string]struct {
		status  int
		param   string
		message string
		want    llm.Facts
		again   bool
	}{
		"OpenAI renames":      {400, "max_tokens", "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.", llm.Facts{Rename: map[string]string{"max_tokens": "max_completion_tokens"}}, true},
		"unrecognized":        {400, "", "Unrecognized request argument supplied: stream_options", llm.Facts{Omit: map[string]bool{"stream_options": true}}, true},
		"Gemini":              {400, "", `Invalid JSON payload received. Unknown name "stream_options": Cannot find field.`, llm.Facts{Omit: map[string]bool{"stream_options": true}}, true},
		"Mistral":             {422, "", "body.messages.1.assistant.reasoning_content: Extra inputs are not permitted", llm.Facts{Omit: map[string]bool{"reasoning_content": true}}, true},
		"Groq":                {400, "", "'messages.2' : for 'role:assistant' the following must be satisfied[('messages.2' : property 'reasoning_content' is unsupported)]", llm.Facts{Omit: map[string]bool{"reasoning_content": true}}, true},
		"path as parameter":   {400, "messages[2].reasoning", "Unknown parameter: 'messages[2].reasoning'.", llm.Facts{Omit: map[string]bool{"reasoning": true}}, true},
		"a fixed value":       {400, "temperature", "Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) value is supported.", llm.Facts{Omit: map[string]bool{"temperature": true}}, true},
		"Bedrock":             {400, "", "Malformed input request: #: extraneous key [stream_options] is not permitted, please reformat your input and try again.", llm.Facts{Omit: map[string]bool{"stream_options": true}}, true},
		"a necessary field":   {400, "", "tools is not supported in this model", llm.Facts{}, false},
		"not about a field":   {400, "", "The model does not support this.", llm.Facts{}, false},
		"a server error":      {500, "", "Unknown error in temperature", llm.Facts{}, false},
		"a wrong key":         {401, "", "unknown stream_options", llm.Facts{}, false},
		"DeepSeek":            {400, "", "The `reasoning_content` in the thinking mode must be passed back to the API.", llm.Facts{AllReasoning: true}, true},
		"turns of a template": {400, "", "After the optional system message, conversation roles must alternate user/assistant/user/assistant/...", llm.Facts{StrictTurns: true}, true},
		"Mistral's turns":     {400, "", "Unexpected role 'user' after role 'tool'", llm.Facts{StrictTurns: true}, true},
		"thinking signature":  {400, "", "messages.1.content.0: Invalid `signature` in `thinking` block", llm.Facts{}, true},
		"an output limit":     {400, "", "max_tokens is too large: 100000. This model supports at most 16384 completion tokens, whereas you provided 100000.", llm.Facts{MaxOutputTokens: 16384}, true},
		"an output range":     {400, "", "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", llm.Facts{MaxOutputTokens: 8192}, true},
	} {
		t.Run(name, func(t *testing.T) {
			learned := &llm.Learned{}
			_, again := learned.Learn(llm.ProviderError{Status: c.status, Param: c.param, Message: c.message}, llm.Sent{Fields: fields, MaxOutputTokens: 100_000})
			got := learned.Facts()
			if len(got.Rename) == 0 {
				got.Rename = nil
			}
			if diff := cmp.Diff(c.want, got); diff != "" || again != c.again {
				t.Errorf("repeat %v (-want +got):\n%s", again, diff)
			}
		})
	}
}

func TestFieldThatIsRefusedUnderBothNamesIsOmitted(t *testing.T) {
	learned := &llm.Learned{}
	refuse := func(name string) bool {
		_, again := learned.Learn(llm.ProviderError{Status: 400, Message: "Unknown parameter: '" + name + "'."}, llm.Sent{Fields: []string{name}})
		return again
	}
	if !refuse("max_tokens") || !refuse("max_completion_tokens") || refuse("max_tokens") {
		t.Error("the call is repeated the wrong number of times")
	}
	if facts := learned.Facts(); !facts.Omit["max_tokens"] || len(facts.Rename) != 0 {
		t.Errorf("facts are %+v", facts)
	}
}

// The requested output must not crowd out a prompt that fits.
func TestOutputIsReducedToTheRoomBehindThePrompt(t *testing.T) {
	for name, c := range map[string]struct {
		message string
		output  int
		room    int
	}{
		"Anthropic":    {"input length and `max_tokens` exceed context limit: 180000 + 64000 > 200000, decrease input length or `max_tokens` and try again", 64000, 20000},
		"vLLM":         {"'max_tokens' or 'max_completion_tokens' is too large: 8192. This model's maximum context length is 4096 tokens and your request has 1000 input tokens (8192 > 4096 - 1000).", 8192, 3096},
		"OpenAI":       {"This model's maximum context length is 8192 tokens. However, you requested 11192 tokens (3000 in the messages, 8192 in the completion).", 8192, 5192},
		"TGI":          {"`inputs` tokens + `max_new_tokens` must be <= 4097. Given: 2000 `inputs` tokens and 4096 `max_new_tokens`", 4096, 2097},
		"vLLM, newer":  {"You passed 99073 input tokens and requested 32000 output tokens. However, the model's context length is only 131072 tokens, resulting in a maximum input length of 99072 tokens. Please reduce the length of the input prompt. (parameter=input_tokens, value=99073)", 32000, 31999},
		"OpenRouter":   {"This endpoint's maximum context length is 262144 tokens. However, you requested about 284283 tokens (8963 of text input, 13176 of tool input, 262144 in the output). Please reduce the length of either one, or use the context-compression plugin to compress your prompt automatically.", 262144, 240005},
		"SGLang":       {"Requested token count exceeds the model's maximum context length of 131072 tokens. You requested a total of 135000 tokens: 7000 tokens from the input messages and 128000 tokens for the completion.", 128000, 124072},
		"nothing left": {"prompt is too long: 213462 tokens > 200000 maximum", 64000, 0},
	} {
		change, again := (&llm.Learned{}).Learn(llm.ProviderError{Status: 400, Message: c.message}, llm.Sent{MaxOutputTokens: c.output})
		if again != (c.room > 0) || change.MaxOutputTokens > c.room || change.MaxOutputTokens < c.room*9/10-20 {
			t.Errorf("%s: %+v, %v; want at most %d", name, change, again, c.room)
		}
	}
}

func TestIDsOfOtherProvidersAreAdapted(t *testing.T) {
	long := "call_" + strings.Repeat("x", 60)
	for _, c := range []struct{ got, want string }{
		{llm.ShortID("call_1", 40), "call_1"},
		{llm.NineLetterID("abcDEF123"), "abcDEF123"},
		{llm.ShortID(long, 40), llm.ShortID(long, 40)},
		{llm.NineLetterID("call_1"), llm.NineLetterID("call_1")},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
	if short, nine := llm.ShortID(long, 40), llm.NineLetterID("functions.read:0"); len(short) > 40 || len(nine) != 9 || short == llm.ShortID(long+"y", 40) {
		t.Errorf("the ids are %q and %q", short, nine)
	}
}

func TestFamily(t *testing.T) {
	for model, want := range map[string]string{
		"claude-sonnet-5-5": "claude", "anthropic/claude-x": "claude", "gpt-5.4": "gpt", "o3": "gpt", "openai/o4-mini": "gpt",
		"qwen3:32b": "qwen", "accounts/x/models/deepseek-v3": "deepseek", "DeepSeek-R1": "deepseek", "": "",
		"eu.anthropic.claude-opus-5-v1:0": "claude", "anthropic.claude-x": "claude", "gemini-2.5-pro": "gemini", "deepseek.v3-v1:0": "deepseek", "us-gov.meta.llama3-3": "llama",
		"arn:aws:bedrock:eu-central-1:123456789012:inference-profile/eu.anthropic.claude-opus-5-v1:0": "claude", "claude-opus-4-5@20251101": "claude",
	} {
		if got := llm.Family(model); got != want {
			t.Errorf("%s is of family %q, want %q", model, got, want)
		}
	}
}

func TestHalvesOfCharactersAreJoined(t *testing.T) {
	for name, pieces := range map[string][]string{
		"bytes":              {"\"\xf0\x9f\"", "\"\x98\x80\""},
		"one byte each":      {"\"\xf0\"", "\"\x9f\"", "\"\x98\"", "\"\x80\""},
		"escaped surrogates": {`"\ud83d"`, `"\ude00"`},
		"one piece":          {`"\ud83d\ude00"`},
		"plain":              {`"😀"`},
	} {
		var j llm.Joiner
		got := ""
		for _, p := range pieces {
			s, ok := llm.DecodeString([]byte(p))
			if !ok {
				t.Fatalf("%s: %q is not decoded", name, p)
			}
			got += j.Add(s)
		}
		if got += j.Flush(); got != "😀" {
			t.Errorf("%s: got %q", name, got)
		}
	}
	var j llm.Joiner
	if got := j.Add("a\xed\xa0\xbd") + j.Add("b") + j.Add("\xff") + j.Flush(); got != "a\uFFFDb\uFFFD" {
		t.Errorf("halves without their other half give %q", got)
	}
}

// An endpoint that does not tell its window is not asked forever. A window that somebody may have made
// larger is asked for again: one of another process, and a small one.
func TestTheWindowIsAskedForWhenItMayHaveChanged(t *testing.T) {
	now := time.Unix(1_760_000_000, 0)
	for name, c := range map[string]struct {
		known []int // before each question; 0 keeps it
		every time.Duration
		want  string
	}{
		"unknown":            {[]int{0, 0, 0, 0}, time.Hour, "yes yes no no"},
		"found out":          {[]int{0, 32_768, 0}, time.Hour, "yes no no"},
		"of another process": {[]int{32_768, 0, 0}, time.Hour, "yes no no"},
		"small, later":       {[]int{4096, 0, 0}, time.Minute, "yes yes yes"},
		"small, at once":     {[]int{4096, 0, 0}, time.Second, "yes no no"},
		"made larger":        {[]int{4096, 0, 32_768, 0}, time.Minute, "yes yes no no"},
	} {
		var l llm.Learned
		var got []string
		for i, known := range c.known {
			l.SetContext(known, 0)
			answer := "no"
			if l.MayAskWindow(now.Add(time.Duration(i) * c.every)) {
				answer = "yes"
			}
			got = append(got, answer)
		}
		if said := strings.Join(got, " "); said != c.want {
			t.Errorf("%s: %s, want %s", name, said, c.want)
		}
	}
}
