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

// wakerKinds lists the wishes that wake the agent later. The first six are tasks: a command that
// succeeds, one that fails, one that a user must stop, one that exceeds its time limit, one that
// the agent itself stops, and a sub-agent. The others are waits: for a time, for an event, for an
// event that never comes, for the first of several conditions, for two conditions that another
// wait triggers, for the next message, one that is canceled, and a schedule.
var wakerKinds = []string{"task", "fail", "stop", "brief", "own", "sub", "moment", "event", "late", "any", "chain", "next", "cancel", "minute"}

// A waker is the letter w, a number, and its kind: w3task.
var wakers = regexp.MustCompile(`\bw(\d+)(` + strings.Join(wakerKinds, "|") + `)\b`)

// publishes matches the prompt that makes the agent publish an event.
var publishes = regexp.MustCompile(`publish custom\.link(\d+)`)

// wakened returns a model that fulfills wishes and then names, in one answer, all wishes that it
// has not named before. Each of its commands contains mark.
func wakened(mark string) func(r llmtest.Request) llmtest.Script {
	return func(r llmtest.Request) llmtest.Script {
		last := r.Messages[len(r.Messages)-1]
		if strings.Contains(last.Text, "a sub-agent's work") {
			return llmtest.Script{Text: llmtest.Words("The sub-agent has done it."), Delay: 20 * time.Millisecond}
		}
		open, results := openWakers(r)
		var calls []llmtest.Call
		for _, wish := range open {
			if call, needed := wakerCall(wish, mark, results); needed {
				calls = append(calls, call)
			}
		}
		for _, link := range openLinks(r) {
			calls = append(calls, bashCall(fmt.Sprintf("link-%s-%d", link, r.N), "tools events.publish --type=custom.link"+link+" --id=link"+link+" >/dev/null && echo published "+link))
		}
		switch {
		case len(calls) > 0:
			return llmtest.Script{Calls: calls, Delay: 10 * time.Millisecond}
		case len(open) == 0:
			return llmtest.Say("Noted.")
		}
		return llmtest.Script{Text: llmtest.Words("Granted: " + strings.Join(open, " ") + " ."), Delay: 20 * time.Millisecond}
	}
}

// openWakers returns the wishes of a conversation that no answer names, and the results of all
// tool calls.
func openWakers(r llmtest.Request) (open []string, results map[string]string) {
	results = map[string]string{}
	for _, m := range r.Messages {
		for id, text := range m.Results {
			results[id] = text
		}
		for _, wish := range wakers.FindAllString(m.Text, -1) {
			switch at := slices.Index(open, wish); {
			case m.Role == "assistant" && at >= 0:
				open = slices.Delete(open, at, at+1)
			case m.Role == "user" && at < 0 && strings.Contains(m.Text, "please "+wish):
				open = append(open, wish)
			}
		}
	}
	return open, results
}

// openLinks returns the events that the agent was asked to publish and has not yet published as
// far as it knows.
func openLinks(r llmtest.Request) (open []string) {
	for _, m := range r.Messages {
		if found := publishes.FindStringSubmatch(m.Text); m.Role == "user" && found != nil {
			open = append(open, found[1])
		}
		for _, text := range m.Results {
			open = slices.DeleteFunc(open, func(link string) bool { return strings.Contains(text, "published "+link) })
		}
	}
	return open
}

func bashCall(id, command string) llmtest.Call {
	return llmtest.Call{ID: id, Name: "bash", Input: `{"command":` + strconv.Quote(command) + `}`}
}

// wakerCall returns the next tool call for a wish, if it needs one.
func wakerCall(wish, mark string, results map[string]string) (call llmtest.Call, needed bool) {
	found := wakers.FindStringSubmatch(wish)
	id, n, kind := "call-"+wish, found[1], found[2]
	result, begun := results[id]
	if kind == "own" && begun && results["call-own"+n] == "" {
		if task := taskIn.FindString(result); task != "" {
			return bashCall("call-own"+n, "tools task.stop --id="+task), true
		}
	}
	start := func(command, more string) llmtest.Call {
		return llmtest.Call{ID: id, Name: task.ToolName, Input: `{"action":"start","command":` + strconv.Quote(command) + more + `}`}
	}
	wait := func(completion string, tasks ...string) llmtest.Call {
		return bashCall(id, fmt.Sprintf(`tools workflow.create --summary='for %s' --completion=%s --tasks:json='[%s]'`, n, completion, strings.Join(tasks, ",")))
	}
	event := func(name, timeout string) string {
		return fmt.Sprintf(`{"kind":"wait_for_event","description":"it","types":["custom.%s%s"],"timeout":"%s"}`, name, n, timeout)
	}
	delay := func(what, of string) string {
		return fmt.Sprintf(`{"kind":"delay","description":"%s","delay":"%s"}`, what, of)
	}
	switch kind {
	case "task":
		call = start("sleep 0.4; echo done "+mark, "")
	case "fail":
		call = start("echo "+mark+"; exit 3", "")
	case "stop", "own":
		call = start("sleep "+mark, "")
	case "brief":
		call = start("sleep "+mark, `,"timeout":1`)
	case "sub":
		call = llmtest.Call{ID: id, Name: task.ToolName, Input: `{"action":"start","prompt":"This is a sub-agent's work."}`}
	case "moment":
		call = wait("all", delay("a second", "1s"))
	case "event":
		call = wait("all", event("occur", "1h"))
	case "late":
		call = wait("all", event("never", "1s"))
	case "any":
		call = wait("any", event("never", "1h"), delay("soon", "1s"), delay("later", "2s"))
	case "chain":
		call = bashCall(id, fmt.Sprintf(`tools workflow.create --summary='both of %[1]s' --tasks:json='[%[2]s,%[3]s]' &&
			tools workflow.create --summary='link %[1]s' --tasks:json='[{"kind":"delay","description":"publish custom.link%[1]s","delay":"1s"}]'`, n, event("link", "1h"), delay("half", "1s")))
	case "next":
		call = bashCall(id, fmt.Sprintf(`tools workflow.wait_for_reply --summary='next of %s' --timeout=1h`, n))
	case "minute":
		call = bashCall(id, fmt.Sprintf(`tools workflow.schedule --cron='* * * * *' --summary='long %s'`, n))
	case "cancel":
		call = wait("all", delay("long", "20h"))
	}
	return call, !begun
}

// taskIn matches the task ID in a tool result.
var taskIn = regexp.MustCompile(`\b01[0-9a-z]{24}\b`)
