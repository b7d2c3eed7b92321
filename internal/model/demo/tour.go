package demo

import (
	"encoding/json"
	"strings"

	"lilac/internal/foundation/lazyregexp"
)

// tour is a tour of what Lilac does, for people without a model.
const tour = "This takes five minutes. Send these messages one after the other:\n\n" +
	"1. `run uname -a`: I call a tool.\n" +
	"2. `count slowly to 20`, and while I count, `and then say hello`: the answer in progress takes your message into account.\n" +
	"3. `run sleep 15; echo done in the background`: a task that runs on its own. I come back with its result; until then we can talk.\n" +
	"4. `remind me in 10 seconds to stretch`: I wait without costing anything, even if Lilac is restarted meanwhile.\n" +
	"5. `announce lunch is ready`: I publish an event, and a rule wakes me for it. Webhooks, files, and timers do the same.\n" +
	"6. `ask me something`: I ask, and wait for your answer.\n" +
	"7. `kill me`: I answer slowly enough for you to kill the process. Start Lilac again, and the answer is complete.\n\n" +
	"Then look at **Requests** on the page, or at `lilac requests list`: everything that happened is there, step by step."

const killMe = "Kill me now, for example with `kill -9 PID`; the file `server.json` in the data directory has the number. " +
	"Then start Lilac again: I continue by myself.\n\n"

// timeCame begins the message that wakes the model when a wait is over.
const timeCame = "The time has come: "

// slowness multiplies the pause before a word in a slow answer.
const slowness = 12

var (
	tourWords = lazyregexp.New(`(?i)^\s*(?:(?:show me|start|give me|take) )?(?:a |the )?(?:tour|demo)\b`)
	killWords = lazyregexp.New(`(?i)^\s*(?:please )?kill (?:me|yourself|lilac)\b`)
	slowWords = lazyregexp.New(`(?i)\bcount slowly\b`)
	remind    = lazyregexp.New(`(?i)\bremind me in (\d{1,4}) ?(s|m|h)[a-z]* (?:to |about |of |that )?(.+)$`)
	announced = lazyregexp.New(`(?i)^\s*` + polite + `(?:announce|publish)\s+(.+)$`)
	askWords  = lazyregexp.New(`(?i)^\s*` + polite + `ask me\b`)
)

// isSlow reports whether a message asks for an answer that takes a while.
func isSlow(message string) bool {
	return slowWords().MatchString(message) || killWords().MatchString(message)
}

// tourRequest returns the tool call that a line of the tour asks for. The tool is "" if it
// asks for none.
func tourRequest(line string) (tool string, args [][]string, values []string) {
	if m := remind().FindStringSubmatch(line); m != nil {
		what := strings.TrimSpace(m[3])
		wait := `[{"kind":"delay","delay":"` + m[1] + strings.ToLower(m[2]) + `","description":` + jsonString(what) + `}]`
		return "bash", [][]string{command}, []string{"tools workflow.create --summary=" + quoteWord("Remind the user: "+what) + " --tasks:json=" + quoteWord(wait)}
	}
	if m := announced().FindStringSubmatch(line); m != nil {
		return "bash", [][]string{command}, []string{"tools events.publish --type=custom.announcement --payload:json=" + quoteWord(`{"text":`+jsonString(strings.TrimSpace(m[1]))+`}`)}
	}
	if askWords().MatchString(line) {
		return "ask", [][]string{{"question"}}, []string{"Shall I count to three, or to ten?"}
	}
	return "", nil, nil
}

// jsonString encodes a string as JSON.
func jsonString(s string) string {
	raw, _ := json.Marshal(s) // a string always marshals
	return string(raw)
}

// quoteWord quotes a word for a shell.
func quoteWord(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
