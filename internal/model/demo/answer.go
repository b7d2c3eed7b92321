package demo

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/lazyregexp"
	"lilac/internal/foundation/text"
	"lilac/internal/model/llm"
)

// What is quoted of a prompt, and shown of a tool's output.
const (
	maxQuote  = 200
	maxOutput = 2000
	maxCount  = 10_000
)

// reply is what the model will say and do.
type reply struct {
	reasoning string
	text      string
	calls     []chat.Part
}

// situation is what the model finds at the end of the conversation.
type situation struct {
	// said are the messages of people since the model spoke last.
	said []string
	// results are the tool results since then, calls what they answer.
	results []chat.Part
	calls   map[string]chat.Part
}

func look(messages []chat.Message) situation {
	s := situation{calls: map[string]chat.Part{}}
	for _, m := range slices.Backward(messages) {
		switch m.Role {
		case chat.User:
			s.said = append(s.said, strings.TrimSpace(m.Text()))
		case chat.Tool:
			s.results = append(slices.Clone(m.ToolResults()), s.results...)
		case chat.Assistant:
			for _, c := range m.ToolCalls() {
				s.calls[c.ToolCallID] = c
			}
			slices.Reverse(s.said)
			return s
		}
	}
	slices.Reverse(s.said)
	return s
}

func answer(req llm.Request) reply {
	s := look(req.Messages)
	var a reply
	var parts []string
	if told, rest, ok := ofEvent(s); ok {
		parts = append(parts, told)
		s.said, s.results = rest, nil
	}
	if len(s.results) > 0 {
		parts = append(parts, summary(s))
		for _, text := range s.said {
			parts = append(parts, "While I was at work you added: “"+quote(text)+"”. I have taken it in.")
		}
	}
	wanted := 0
	for _, text := range s.said {
		calls, missing := wishes(text, req.Tools)
		for _, c := range calls {
			a.calls = append(a.calls, c.part(callID(req, wanted, c)))
			wanted++
		}
		parts = append(parts, missing...)
	}
	switch {
	case len(a.calls) > 0:
		parts = append(parts, announce(a.calls))
	case len(s.said) > 0:
		text, reasoning := talk(s.said, len(s.results) > 0)
		a.reasoning = reasoning
		if text != "" {
			parts = append(parts, text)
		}
	case len(parts) == 0:
		parts = append(parts, introduction)
	}
	a.text = strings.Join(parts, "\n\n")
	return a
}

const introduction = "I am Lilac's built-in demo model: a few rules that work offline, not a language model."

const advice = "For real answers set `ANTHROPIC_API_KEY` or `OPENAI_API_KEY` (for another compatible server also " +
	"`OPENAI_BASE_URL`) and start Lilac again."

const suggestions = "Meanwhile you can try what I do understand:\n\n" +
	"- `run uname -a` runs a command, `run the tests in the background` one that takes long: I come back with the result\n" +
	"- `list files` shows the workspace\n" +
	"- `write notes.txt: hello` and then `read notes.txt`\n" +
	"- `search for hello` looks into the files\n" +
	"- `count to 50` takes a while, so you can write to me in the middle, stop me, or kill the program"

var (
	hello   = lazyregexp.New(`(?i)^(hi|hello|hey|hallo|good (morning|evening|day)|who are you|what are you|help)\b`)
	counted = lazyregexp.New(`(?i)\bcount (?:slowly )?(?:up )?to (\d{1,9})\b`)
	think   = lazyregexp.New(`(?i)^think\b`)
)

// talk answers what asks for no tool.
func talk(said []string, working bool) (text, reasoning string) {
	last := said[len(said)-1]
	if m := counted().FindStringSubmatch(last); m != nil {
		n, err := strconv.Atoi(m[1])
		if err != nil || n > maxCount {
			n = maxCount
		}
		return count(n), ""
	}
	if think().MatchString(last) {
		reasoning = "The person asks me to think. I have only a few rules, so I look through them, one after the other, and find that none of them fits."
	}
	switch {
	case working:
		return "", reasoning
	case last == "":
		return introduction + " Your message had no text that I could read.\n\n" + suggestions, reasoning
	case hello().MatchString(last):
		return "Hello! " + introduction + " " + advice + "\n\n" + suggestions, reasoning
	}
	var quoted []string
	for _, s := range said {
		quoted = append(quoted, "“"+quote(s)+"”")
	}
	return introduction + " You said: " + strings.Join(quoted, " and ") + ".\n\n" + advice + "\n\n" + suggestions, reasoning
}

func count(n int) string {
	var b strings.Builder
	for i := 1; i <= n; i++ {
		if i > 1 {
			b.WriteByte(' ')
		}
		b.WriteString(strconv.Itoa(i))
	}
	return b.String()
}

func announce(calls []chat.Part) string {
	if len(calls) == 1 {
		return "I will use the tool `" + calls[0].ToolName + "`."
	}
	names := make([]string, len(calls))
	for i, c := range calls {
		names[i] = "`" + c.ToolName + "`"
	}
	return "I will use the tools " + strings.Join(names, ", ") + "."
}

// summary tells what the tools answered.
func summary(s situation) string {
	parts := make([]string, 0, len(s.results))
	for _, r := range s.results {
		content, failed := r.OutputText()
		content = strings.TrimRight(content, "\n ")
		verb := "answered"
		if failed {
			verb = "failed and said"
		}
		name := "`" + r.ToolName + "`"
		if c, ok := s.calls[r.ToolCallID]; ok {
			name += " (" + text.TruncateRunes(string(c.Input), 100) + ")"
		}
		if content == "" {
			parts = append(parts, fmt.Sprintf("The tool %s finished without output.", name))
			continue
		}
		parts = append(parts, fmt.Sprintf("The tool %s %s:\n\n%s", name, verb, fenced(text.TruncateRunes(content, maxOutput))))
	}
	return strings.Join(parts, "\n\n")
}

// fenced shows text as it is.
func fenced(text string) string {
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + "\n" + text + "\n" + fence
}

func quote(s string) string {
	return text.TruncateRunes(strings.Join(strings.Fields(s), " "), maxQuote)
}

// callID is the same for the same conversation and different for each call in
// it, so a step that is repeated after a crash asks for the same call.
func callID(req llm.Request, n int, w wish) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\x00%d\x00%d\x00%s\x00%v", req.Session, len(req.Messages), n, w.tool, w.input)
	if len(req.Messages) > 0 {
		last, err := json.Marshal(req.Messages[len(req.Messages)-1])
		if err == nil {
			h.Write(last)
		}
	}
	return "demo_" + hex.EncodeToString(h.Sum(nil)[:8])
}
