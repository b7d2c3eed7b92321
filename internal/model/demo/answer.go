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

// Limits, in characters, of quotes from a prompt and of tool output, and the highest
// number to count to.
const (
	maxQuote   = 200
	maxOutput  = 2000
	maxCountTo = 10_000
)

// reply is the content of one answer.
type reply struct {
	// slow makes the pauses between words longer.
	slow      bool
	reasoning string
	text      string
	calls     []chat.Part
}

// Parts of messages that no person wrote: the note about work that somebody stopped, and the
// beginning of the one about the channel.
const (
	stopped = "was stopped before it was finished."
	place   = "(This conversation is in the "
)

// turn is the end of a conversation: everything since the model's last answer, and since
// somebody stopped its work.
type turn struct {
	// messages are the texts of the user messages.
	messages []string
	// results are the tool results, calls the tool calls that they belong to.
	results []chat.Part
	calls   map[string]chat.Part
}

func latestTurn(messages []chat.Message) turn {
	s := turn{calls: map[string]chat.Part{}}
	for _, m := range slices.Backward(messages) {
		if m.Role == chat.Assistant {
			for _, c := range m.ToolCalls() {
				s.calls[c.ToolCallID] = c
			}
			break
		}
		if m.Role == chat.System && strings.Contains(m.Text(), stopped) {
			break
		}
		switch m.Role {
		case chat.User:
			if text := strings.TrimSpace(m.Text()); !strings.HasPrefix(text, place) {
				s.messages = append(s.messages, text)
			}
		case chat.Tool:
			s.results = append(slices.Clone(m.ToolResults()), s.results...)
		}
	}
	slices.Reverse(s.messages)
	return s
}

func answer(req llm.Request) reply {
	s := latestTurn(req.Messages)
	var a reply
	var parts []string
	if description, rest, ok := describeEvent(s); ok {
		parts = append(parts, description)
		s.messages, s.results = rest, nil
	}
	if len(s.results) > 0 {
		parts = append(parts, summary(s))
		for _, text := range s.messages {
			parts = append(parts, "While I was working, you added: “"+quote(text)+"”. I have read it.")
		}
	}
	requested := 0
	for _, text := range s.messages {
		calls, missing := parseRequests(text, req.Tools)
		for _, c := range calls {
			a.calls = append(a.calls, c.part(callID(req, requested, c)))
			requested++
		}
		parts = append(parts, missing...)
	}
	switch {
	case len(a.calls) > 0:
		parts = append(parts, announce(a.calls))
	case len(s.messages) > 0:
		text, reasoning := chatReply(s.messages, len(s.results) > 0)
		a.reasoning, a.slow = reasoning, isSlow(s.messages[len(s.messages)-1])
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

const advice = "For real answers, open **Set up** on Lilac's page, or run `lilac setup`."

const suggestions = "Meanwhile, you can try these requests:\n\n" +
	"- `tour` shows in five minutes what Lilac does\n" +
	"- `run uname -a` runs a command, `run the tests in the background` starts a long one: I report the result when it ends\n" +
	"- `list files` shows the workspace\n" +
	"- `write notes.txt: hello` and then `read notes.txt`\n" +
	"- `search for hello` searches the files\n" +
	"- `count to 50` takes a while, so you can write to me meanwhile, stop me, or kill the process"

var (
	hello   = lazyregexp.New(`(?i)^(hi|hello|hey|hallo|good (morning|evening|day)|who are you|what are you|help)\b`)
	countTo = lazyregexp.New(`(?i)\bcount (?:slowly )?(?:up )?to (\d{1,9})\b`)
	think   = lazyregexp.New(`(?i)^think\b`)
)

// chatReply answers messages that request no tool.
func chatReply(messages []string, working bool) (text, reasoning string) {
	last := messages[len(messages)-1]
	switch {
	case tourWords().MatchString(last):
		return tour, ""
	case strings.HasPrefix(last, timeCame):
		return "You asked me to remind you: **" + quote(strings.TrimPrefix(last, timeCame)) + "**.", ""
	case killWords().MatchString(last):
		return killMe + count(40), ""
	}
	if m := countTo().FindStringSubmatch(last); m != nil {
		n, err := strconv.Atoi(m[1])
		if err != nil || n > maxCountTo {
			n = maxCountTo
		}
		return count(n), ""
	}
	if think().MatchString(last) {
		reasoning = "The user asks me to think. I only have a few rules. I check them one by one, and none of them matches."
	}
	switch {
	case working:
		return "", reasoning
	case last == "":
		return introduction + " Your message has no text that I can read.\n\n" + suggestions, reasoning
	case hello().MatchString(last):
		return "Hello! " + introduction + " " + advice + "\n\n" + suggestions, reasoning
	}
	var quoted []string
	for _, s := range messages {
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

// summary reports the tools' results.
func summary(s turn) string {
	parts := make([]string, 0, len(s.results))
	for _, r := range s.results {
		content, failed := r.OutputText()
		content = strings.TrimRight(content, "\n ")
		verb := "returned"
		if failed {
			verb = "failed with"
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

// fenced returns text as a Markdown code block.
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

// callID derives the id of a call from the conversation, so that a step that is
// repeated after a crash makes the same call. Ids within a conversation differ.
func callID(req llm.Request, n int, w toolRequest) string {
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
