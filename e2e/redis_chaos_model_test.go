package e2e_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"lilac/internal/core/task"
	"lilac/internal/testkit/llmtest"
)

// wishKinds lists the wishes: a short answer, a long one, a command, a task, a sub-agent, a wait
// for a time, and a wait for a reply.
var wishKinds = []string{"say", "slow", "run", "task", "sub", "wait", "ask"}

// A wish is the letter m, a number, and its kind: m3slow.
var wishes = regexp.MustCompile(`\bm(\d+)(` + strings.Join(wishKinds, "|") + `)\b`)

// grant returns a model that fulfills wishes and then names, in one answer, all wishes that it has
// not named before. It asks its questions in a channel.
func grant(channel string) func(r llmtest.Request) llmtest.Script {
	return func(r llmtest.Request) llmtest.Script {
		if last := r.Messages[len(r.Messages)-1]; strings.Contains(last.Text, "a sub-agent's work") {
			return llmtest.Script{Text: llmtest.Words("The sub-agent has done it."), Delay: 20 * time.Millisecond}
		}
		open, begun := openWishes(r)
		var calls []llmtest.Call
		text := "Granted: "
		for _, wish := range open {
			if call := callFor(wish, channel); call.Name != "" && !begun[call.ID] {
				calls = append(calls, call)
			}
			if strings.HasSuffix(wish, "slow") {
				text += strings.Repeat("word ", 40)
			}
		}
		switch {
		case len(calls) > 0:
			return llmtest.Script{Calls: calls, Delay: 10 * time.Millisecond}
		case len(open) == 0:
			return llmtest.Say("Noted.")
		}
		return llmtest.Script{Text: llmtest.Words(text + strings.Join(open, " ") + " ."), Delay: 20 * time.Millisecond}
	}
}

// openWishes returns the wishes of a conversation that no answer names. begun holds the calls that
// have a result, even if the outcome is unknown.
func openWishes(r llmtest.Request) (open []string, begun map[string]bool) {
	begun = map[string]bool{}
	for _, m := range r.Messages {
		for id := range m.Results {
			begun[id] = true
		}
		for _, wish := range wishes.FindAllString(m.Text, -1) {
			switch at := slices.Index(open, wish); {
			case m.Role == "assistant" && at >= 0:
				open = slices.Delete(open, at, at+1)
			case m.Role == "user" && at < 0:
				open = append(open, wish)
			}
		}
	}
	return open, begun
}

// callFor returns the tool call for a wish. Its name is empty if the wish needs none.
func callFor(wish, channel string) llmtest.Call {
	found := wishes.FindStringSubmatch(wish)
	id, n, kind := "call-"+wish, found[1]+found[2], found[2]
	bash := func(command string) llmtest.Call {
		return llmtest.Call{ID: id, Name: "bash", Input: `{"command":` + strconv.Quote(command) + `}`}
	}
	switch kind {
	case "run":
		return bash("sleep 0.2")
	case "task":
		return llmtest.Call{ID: id, Name: task.ToolName, Input: `{"action":"start","command":"sleep 0.5"}`}
	case "sub":
		return llmtest.Call{ID: id, Name: task.ToolName, Input: `{"action":"start","prompt":"This is a sub-agent's work."}`}
	case "wait":
		return bash(fmt.Sprintf(`tools workflow.create --summary=%s --tasks:json='[{"kind":"delay","description":"x","delay":"2s"}]'`, n))
	case "ask":
		return bash(fmt.Sprintf(`tools workflow.send_and_wait --session-id=%s --text='question %s?' --summary=%s`, channel, n, n))
	}
	return llmtest.Call{}
}
