package openaiapi

import (
	"strings"
	"testing"
)

func TestTheJSONOfAnAnswerIsFound(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":1}`: `{"a":1}`,
		"I looked at {x}.\n\n```json\n{\"a\": {\"b\": 2}}\n```\n": `{"a": {"b": 2}}`,
		`First {"a":1}, and now {"a":2}. See [1].`:                `{"a":2}`,
		`It breaks off: {"a":{"b":2},`:                            `It breaks off: {"a":{"b":2},`,
		"no JSON":                                                 "no JSON",
		"":                                                        "",
		strings.Repeat("{", 100_000):                              strings.Repeat("{", 100_000),
		strings.Repeat(`{"a":`, 100_000):                          strings.Repeat(`{"a":`, 100_000),
	} {
		if got := lastJSON(text); got != want {
			t.Errorf("lastJSON(%.60q) = %.60q, want %.60q", text, got, want)
		}
	}
}

// NextChat asks for a summary of a chat with a system message at the end.
func TestASystemMessageAtTheEndIsThePrompt(t *testing.T) {
	said := func(role, text string) message { return message{Role: role, Content: content{{Text: text}}} }
	var c conversation
	err := c.divide(Client{}, &question{field: "messages", messages: []message{said("system", "Be brief."), said("user", "hi"), said("assistant", "Hello!"), said("system", "Summarize.")}})
	if err != nil || c.prompt != "Summarize." || c.instructions != "Be brief." || len(c.earlier) != 2 {
		t.Errorf("%v: %+v", err, c)
	}
	if err := new(conversation).divide(Client{}, &question{field: "messages", messages: []message{said("system", "Be brief.")}}); err == nil {
		t.Error("instructions alone are a prompt")
	}
}
