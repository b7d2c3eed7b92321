package e2e_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/llmtest"
)

// transcriptBody is a chat completion that repeats the messages of a conversation, in which the user and the
// assistant take turns.
func transcriptBody(more string, turns ...string) string {
	var messages []string
	for i, text := range turns {
		messages = append(messages, fmt.Sprintf(`{"role":%q,"content":%q}`, []string{"user", "assistant"}[i%2], text))
	}
	return `{"model":"lilac","messages":[` + strings.Join(messages, ",") + `]` + more + `}`
}

// Chat programs that send no header repeat all that was said. They continue the conversation that said it,
// and begin another one if it has gone on, or if anything was said in other words.
func TestATranscriptOfV1ContinuesItsConversation(t *testing.T) {
	t.Parallel()
	s, m := startV1(t)
	all := 0
	// say sends a transcript, and returns it with the answer. begun is how many conversations begin.
	say := func(what string, begun int, more string, turns []string, header ...string) []string {
		t.Helper()
		got, raw := v1(t, t.Context(), s, "chat/completions", transcriptBody(more, turns...), header...)
		if got.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d %s", what, got.StatusCode, raw)
		}
		all += begun
		if n := conversations(s); n != all {
			t.Errorf("after %s, there are %d conversations, want %d", what, n, all)
		}
		answer := "You said " + turns[len(turns)-1]
		if more == "" {
			answer = textIn(t, raw)
		}
		return append(slices.Clip(turns), answer)
	}
	next := func(turns []string, text string) []string { return append(slices.Clip(turns), text) }

	one := say("the first words", 1, "", []string{"one"})
	two := say("the next words", 0, "", next(one, "two"))
	three := say("a stream", 0, `,"stream":true`, next(two, "three"))
	say("words after a stream", 0, "", next(three, "four"))
	other := say("other words instead of the second ones", 1, "", next(one, "other"))
	if sent := string(m.last().Body); strings.Contains(sent, "You said two") || !strings.Contains(sent, "You said one") {
		t.Errorf("after the edit, the model got %s", sent)
	}
	say("words after the edit", 0, "", next(other, "five"))
	say("an answer that is asked for again", 1, "", next(one, "two"))
	say("an answer in other words", 1, "", []string{"one", "You said 1", "two"})

	hello := say("the words of another program", 0, "", []string{"hello"}, "Authorization", "Bearer "+v1OtherKey)
	say("the answer to another program", 1, "", next(hello, "six"))

	red := say("words", 1, "", []string{"red"})
	say("another model", 1, `,"model":"lilac/reviews"`, next(red, "green"))
	say("other instructions", 1, `,"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"red"},{"role":"assistant","content":"You said red"},{"role":"user","content":"green"}]`, red)

	say("the same words", 1, "", []string{"red"})
	say("words after two equal answers, which may be those of two people", 1, "", next(red, "green"))

	got, _ := v1(t, t.Context(), s, "chat/completions", chatBody("blue", ""))
	all++
	say("a call that selects the conversation", 0, "", []string{"green"}, "Lilac-Session", got.Header.Get("Lilac-Session"))
	say("words that do not know of that call", 1, "", []string{"blue", "You said blue", "white"})
}

// Without a header, the answer to a question arrives where it was asked. The words after the question of an
// approval, which a program cannot answer, begin another conversation.
func TestATranscriptOfV1AnswersAQuestion(t *testing.T) {
	t.Parallel()
	model := llmtest.New(t, func(r llmtest.Request) llmtest.Script {
		last := r.Messages[len(r.Messages)-1]
		for _, text := range last.Results {
			return llmtest.Say("It is " + text)
		}
		switch {
		case strings.HasSuffix(last.Text, "paint"):
			return llmtest.Script{Calls: []llmtest.Call{{ID: "c", Name: "ask", Input: `{"question":"Which color?"}`}}}
		case strings.HasSuffix(last.Text, "approve"):
			return llmtest.Script{Text: []string{"Reading. "}, Calls: []llmtest.Call{{ID: "c", Name: "read", Input: `{"path":"x"}`}}}
		}
		return llmtest.Say("Well.")
	})
	s := e2e.New(t, append(modelEnv(model.URL), e2e.Configured(t, `{v1: {tokens: {ide: {token: `+v1Key+`}}}, policy: [{tool: read, do: ask}]}`)...)...)
	s.Restart()
	for i, c := range []struct{ first, second, want string }{{"paint", "blue", "It is blue"}, {"approve", "never mind", "Well."}} {
		_, raw := v1(t, t.Context(), s, "chat/completions", transcriptBody("", c.first))
		question := textIn(t, raw)
		got, raw := v1(t, t.Context(), s, "chat/completions", transcriptBody("", c.first, question, c.second))
		if got.StatusCode != http.StatusOK || strings.TrimSpace(textIn(t, raw)) != c.want {
			t.Errorf("%q after %q: %d %s", c.second, question, got.StatusCode, raw)
		}
		if n, want := conversations(s), 1+2*i; n != want {
			t.Errorf("there are %d conversations, want %d", n, want)
		}
	}
}

// Each library repeats the earlier messages in a form of its own.
func TestUnmodifiedClientsOfV1ContinueTheirConversation(t *testing.T) {
	t.Parallel()
	needV1Clients(t)
	s, _ := startV1(t)
	const script = `import OpenAI from 'openai';
import { ChatOpenAI } from '@langchain/openai';
import { createOpenAI } from '@ai-sdk/openai';
import { generateText, streamText } from 'ai';
const [baseURL, apiKey] = [process.env.BASE_URL, process.env.API_KEY];
const client = new OpenAI({ baseURL, apiKey });
const input = [{ role: 'user', content: 'a' }];
input.push(...(await client.responses.create({ model: 'lilac', input })).output, { role: 'user', content: 'b' });
await client.responses.create({ model: 'lilac', input });
const model = new ChatOpenAI({ model: 'lilac', apiKey, configuration: { baseURL } });
await model.invoke([['system', 'Be brief.'], ['user', 'c'], await model.invoke([['system', 'Be brief.'], ['user', 'c']]), ['user', 'd']]);
const provider = createOpenAI({ baseURL, apiKey });
for (const [model, words] of [[provider.chat('lilac'), 'e'], [provider('lilac'), 'f']]) {
  const messages = [{ role: 'user', content: words }];
  messages.push(...(await generateText({ model, messages })).response.messages, { role: 'user', content: [{ type: 'text', text: 'more' }] });
  messages.push(...(await streamText({ model, messages }).response).messages, { role: 'user', content: 'still more' });
  await generateText({ model, messages });
}
`
	if raw, err := v1Program(t, s, script).Output(); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	if n := conversations(s); n != 4 {
		t.Errorf("there are %d conversations, want 4", n)
	}
}
