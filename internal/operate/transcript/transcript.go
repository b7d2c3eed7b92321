// Package transcript turns the stored messages of a conversation into what people are shown:
// questions, answers, tools with their output, and one quiet line per event. It does no I/O.
// The texts are data of models, tools, and people: whoever prints them on a terminal
// sanitizes them first.
package transcript

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/text"
	"lilac/internal/operate/client"
)

// Entry is one part of a stored conversation.
type Entry struct {
	// Kind is user, answer, thinking, tool, or note.
	Kind string
	// Request is the id of the request of which it is a part. Text is Markdown for an answer;
	// for a tool, it says what the call does.
	Request, Text string
	// ToolCallID, ToolName, Output, and Failed belong to a tool, Files to a user's message.
	ToolCallID, ToolName, Output string
	Failed                       bool
	Files                        []string
	// Author is the name of a person with an account who wrote a user's message, or "".
	Author string
}

// eventTool is the call with which the stored conversation describes an event.
const eventTool = "get_event_info"

// Of returns stored messages as people are shown them. The prompts of rules are
// internal; an event is one quiet line. The steps of requests that still run are left out
// if live is set, because the event stream repeats them.
func Of(h client.History, live bool) (out []Entry) {
	results := map[string]chat.Part{}
	messages := make([]chat.Message, 0, len(h.Messages))
	for _, raw := range h.Messages {
		var m chat.Message
		if json.Unmarshal(raw, &m) != nil {
			continue // a message of a newer version
		}
		messages = append(messages, m)
		for _, p := range m.ToolResults() {
			results[p.ToolCallID] = p
		}
	}
	internal := map[string]bool{} // requests whose next user message is a rule's prompt
	for _, m := range messages {
		request := extra(m, "requestId")
		switch {
		case m.Role == chat.User && strings.HasPrefix(extra(m, "id"), "env-") && strings.HasPrefix(m.Text(), "Observed event: "):
			internal[request] = true
		case m.Role == chat.User && internal[request]:
			internal[request] = false
		case m.Role == chat.User:
			author, _ := m.Author()
			out = append(out, Entry{Kind: "user", Request: request, Text: m.Text(), Files: filesOf(m), Author: author.Name})
		case m.Role == chat.Assistant && !(live && slices.Contains(h.Running, request)):
			out = append(out, answerEntries(m, request, results)...)
		}
	}
	return out
}

// answerEntries returns the parts of an answer with the results of its tools.
func answerEntries(m chat.Message, request string, results map[string]chat.Part) (out []Entry) {
	for _, p := range m.Parts {
		switch p.Type {
		case chat.TypeText:
			if strings.TrimSpace(p.Text) != "" {
				out = append(out, Entry{Kind: "answer", Request: request, Text: p.Text})
			}
		case chat.TypeReasoning:
			if p.Text != "" {
				out = append(out, Entry{Kind: "thinking", Request: request, Text: p.Text})
			}
		case chat.TypeToolCall:
			if p.ToolName == eventTool {
				if result, ok := results[p.ToolCallID]; ok {
					out = append(out, Entry{Kind: "note", Request: request, Text: eventLine(result)})
				}
				continue
			}
			e := Entry{Kind: "tool", Request: request, ToolCallID: p.ToolCallID, ToolName: p.ToolName, Text: Describe("", p.ToolName, p.Input)}
			if result, ok := results[p.ToolCallID]; ok {
				e.Output, e.Failed = result.OutputText()
			}
			out = append(out, e)
		}
	}
	return out
}

// eventLine describes an event of which the agent was told.
func eventLine(result chat.Part) string {
	var e struct {
		Type    string `json:"event_type"`
		Payload struct{ Description string }
	}
	content, _ := result.OutputText()
	_ = json.Unmarshal([]byte(content), &e) // an event of another form has no name
	if how, ok := strings.CutPrefix(e.Type, "background_task."); ok {
		return TaskEnded(e.Payload.Description, cmp.Or(TaskEnds()[how], how))
	}
	return "Event " + text.SingleLine(e.Type)
}

func extra(m chat.Message, field string) (s string) {
	_ = json.Unmarshal(m.Extra[field], &s) // a missing field is ""
	return s
}

// Describe returns what a tool call does, in one line: the tool's own words, or the most telling
// of its arguments.
func Describe(display, name string, args json.RawMessage) string {
	if s := text.SingleLine(display); s != "" {
		return strings.TrimSpace(strings.TrimPrefix(strings.TrimPrefix(s, name), ":"))
	}
	var fields map[string]any
	if json.Unmarshal(args, &fields) != nil {
		return text.SingleLine(string(args))
	}
	for _, known := range []string{"command", "file_path", "path", "pattern", "query", "url", "description", "callable"} {
		if s, ok := fields[known].(string); ok && s != "" {
			return text.SingleLine(s)
		}
	}
	if len(fields) == 0 {
		return ""
	}
	return text.SingleLine(string(args))
}

// TaskEnds returns the words for the ends of a background task, by the last part of the event's type.
func TaskEnds() map[string]string {
	return map[string]string{"completed": "finished", "failed": "failed", "timeout": "ran out of time", "stopped": "was stopped"}
}

// TaskEnded returns one line about a task that ended in the way that how says.
func TaskEnded(description, how string) string {
	return fmt.Sprintf("The task “%s” %s", text.SingleLine(description), how)
}

func filesOf(m chat.Message) (names []string) {
	for _, p := range m.Parts {
		if p.Type == chat.TypeFile || p.Type == chat.TypeImage {
			names = append(names, cmp.Or(p.Filename, p.MediaType))
		}
	}
	return names
}

// pageSize is the number of messages that [Pages] asks for at a time.
const pageSize = 200

// Pages returns all stored messages of a conversation, the oldest page first. fetch returns up to
// limit messages before the one with an id, or the newest ones.
func Pages(fetch func(before string, limit int) (client.History, error)) (pages []client.History, err error) {
	for before := ""; ; {
		page, err := fetch(before, pageSize)
		if err != nil {
			return nil, err
		}
		pages = append(pages, page)
		if before = FirstID(page); len(page.Messages) < pageSize || before == "" {
			slices.Reverse(pages)
			return pages, nil
		}
	}
}

// FirstID returns the id of the oldest message of a page, or "".
func FirstID(h client.History) string {
	var first struct{ ID string }
	if len(h.Messages) > 0 {
		_ = json.Unmarshal(h.Messages[0], &first) // without an id, there is no older page
	}
	return first.ID
}

// Markdown returns a conversation as a document.
func Markdown(title string, all []Entry) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n", cmp.Or(title, "Conversation"))
	for _, e := range all {
		switch e.Kind {
		case "user":
			fmt.Fprintf(&b, "\n## %s\n\n%s\n", cmp.Or(e.Author, "You"), e.Text)
			for _, name := range e.Files {
				fmt.Fprintf(&b, "\nAttached: %s\n", name)
			}
		case "answer":
			fmt.Fprintf(&b, "\n## Lilac\n\n%s\n", strings.Trim(e.Text, "\n"))
		case "tool":
			fmt.Fprintf(&b, "\n*%s* `%s`\n", e.ToolName, e.Text)
			if e.Output != "" {
				fence := "```"
				for strings.Contains(e.Output, fence) {
					fence += "`"
				}
				fmt.Fprintf(&b, "\n%s\n%s\n%s\n", fence, strings.TrimRight(e.Output, "\n"), fence)
			}
		case "note":
			fmt.Fprintf(&b, "\n*%s*\n", e.Text)
		}
	}
	return b.String()
}
