package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"lilac/internal/testkit/llmtest"
)

// crowdWishes lists what the users ask for; some are more frequent.
var crowdWishes = []string{
	"plain", "plain", "plain", "long", "long", "slow", "slow", "slow", "tool", "faulty", "quiet", "send", "react", "file", "wait", "wait", "soon", "task", "sub",
}

var (
	// wished matches the number and the kind of a user's wish.
	wished = regexp.MustCompile(`q(\d+) (\w+)\.`)
	// startedTask matches the end of a task ID.
	startedTask = regexp.MustCompile(`01[0-9a-z]{24}`)
	// ofPerson matches the line before a user's message.
	ofPerson = regexp.MustCompile(`message_id=(\d+)\]`)
)

// wishOf returns the last wish in a user's message. It ignores the message that is replied to.
func wishOf(said string) (n int, wish string) {
	for line := range strings.Lines(said) {
		if strings.HasPrefix(line, "(in reply to ") {
			continue
		}
		for _, found := range wished.FindAllStringSubmatch(line, -1) {
			n, _ = strconv.Atoi(found[1]) // the pattern ensures digits
			wish = found[2]
		}
	}
	return n, wish
}

// done is the model's answer if its tool succeeded, and failed the answer if it did not.
func done(n int) string   { return fmt.Sprintf("Done with q%d .", n) }
func failed(n int) string { return fmt.Sprintf("Failed with q%d .", n) }

// crowdModel fulfills the latest wish. side returns the channel to which it writes.
func crowdModel(side func() string) func(llmtest.Request) llmtest.Script {
	var overloaded sync.Map // wishes that already got an overload error; each gets one
	return func(r llmtest.Request) llmtest.Script {
		said := lastOfPerson(r)
		n, wish := wishOf(said)
		unknown := false
		for call, text := range r.Messages[len(r.Messages)-1].Results {
			// A steer is added after the tool results of the previous wish.
			if !strings.HasSuffix(call, fmt.Sprintf("-%d", n)) {
				continue
			}
			if unknown = strings.Contains(text, "outcome is unknown"); unknown && wish != "task" && wish != "sub" {
				break // the call is idempotent
			}
			if unknown || strings.Contains(text, "[exit code ") || wish == "file" && !strings.Contains(text, `"ok":true`) {
				return llmtest.Say(failed(n))
			}
			return llmtest.Say(done(n) + " " + startedTask.FindString(text))
		}
		call := func(name, input string) llmtest.Script {
			id := fmt.Sprintf("call-%d-%d", r.N, n)
			return llmtest.Script{Text: llmtest.Words(fmt.Sprintf("I look at q%d . ", n)), Calls: []llmtest.Call{{ID: id, Name: name, Input: input}}}
		}
		command := func(format string, args ...any) llmtest.Script {
			return call("bash", `{"command":`+strconv.Quote(fmt.Sprintf(format, args...))+`}`)
		}
		switch wish {
		case "long":
			return llmtest.Script{Text: llmtest.Words(longWords(n)), Delay: time.Millisecond}
		case "slow":
			return llmtest.Script{Text: llmtest.Words(fmt.Sprintf("I take my time for q%d and say something now and then .", n)), Delay: 150 * time.Millisecond}
		case "quiet":
			return llmtest.Say("NO_REPLY")
		case "faulty":
			if _, again := overloaded.LoadOrStore(n, true); !again {
				return llmtest.Script{Status: 529, ErrorType: "overloaded_error", ErrorMessage: "overloaded"}
			}
		case "tool":
			return call("glob", `{"pattern":"*.md"}`)
		case "file":
			return call("attachment_add", `{"path":"small.txt"}`)
		case "react":
			if asked := ofPerson.FindStringSubmatch(said); asked != nil {
				return command("tools surface.reactions.add --message-id=%s --emoji=👀", asked[1])
			}
		case "send":
			return command(`tools surface.messages.send --session-id=%s --key=s%d --text="sent-%d- @everyone"`, side(), n, n)
		case "wait":
			return command(`tools workflow.send_and_wait --session-id=%s --key=w%d --text="question-%d-" --summary="wait-%d-" --timeout=2d`, side(), n, n, n)
		case "soon":
			return command(`tools workflow.create --key=w%d --summary="soon-%d-" --tasks:json='[{"kind":"delay","description":"x","delay":"%ds"}]'`, n, n, 1+n%4)
		case "sub":
			return command(`tools task.start --prompt="q%d plain."`, 1_000_000+n)
		case "task":
			return command(`tools task.start --command="sleep 0.%d"`, n%10)
		}
		return llmtest.Script{Text: llmtest.Words(fmt.Sprintf("An answer to q%d @everyone .", n)), Delay: time.Duration(n%20) * time.Millisecond}
	}
}

// longWords returns an answer of one or several messages, with all formats that are hard to split.
func longWords(n int) string {
	rnd := rand.New(rand.NewPCG(uint64(n), 7))
	var b strings.Builder
	code := false
	for until := 500 + n*37%9000; b.Len() < until; {
		switch rnd.IntN(9) {
		case 0:
			if code = !code; code {
				b.WriteString("\n" + []string{"```go\n", "```\n"}[rnd.IntN(2)])
			} else {
				b.WriteString("\n```\n")
			}
		case 1:
			b.WriteString("漢字仮名交じり文を書いてみるとどうなるか、これは長い文である。 ")
		case 2:
			b.WriteString("👩‍👩‍👧‍👦🇩🇪👍🏽 ")
		case 3:
			b.WriteString("שלום עולם مرحبا بالعالم ")
		case 4:
			b.WriteString("\n\n")
		case 5:
			b.WriteString("@everyone @here <@&123456789012345678> ")
		case 6:
			fmt.Fprintf(&b, "[link](https://example.org/%s) ", strings.Repeat("x", rnd.IntN(80)))
		default:
			b.WriteString(strings.Join(slices.Repeat([]string{fmt.Sprintf("word%d", rnd.IntN(100000))}, rnd.IntN(40)), " ") + ". ")
		}
	}
	if code {
		b.WriteString("\n```\n")
	}
	return b.String() + fmt.Sprintf("\n\nThe end of q%d .", n)
}
