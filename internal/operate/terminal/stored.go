package terminal

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"lilac/internal/core/environment"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/text"
	"lilac/internal/operate/client"
	"lilac/internal/serve/httpapi"
)

// eventTool is the call with which the stored conversation describes an event.
const eventTool = "get_event_info"

// entries returns stored messages as the terminal shows them. The prompts of rules are
// internal; an event is one quiet line. The steps of requests that still run are left out
// if live is set, because the event stream repeats them.
func entries(h client.History, live bool) (out []Entry) {
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
		case m.Role == chat.User && strings.HasPrefix(m.Text(), "Observed event: "):
			internal[request] = true
		case m.Role == chat.User && internal[request]:
			internal[request] = false
		case m.Role == chat.User:
			out = append(out, Entry{Kind: "user", Request: request, Text: m.Text(), Files: filesOf(m)})
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
			e := Entry{Kind: "tool", Request: request, ToolCallID: p.ToolCallID, ToolName: p.ToolName, Text: describe("", p.ToolName, p.Input)}
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
		return taskEnded(e.Payload.Description, cmp.Or(taskEnds()[how], how))
	}
	return "Event " + text.SingleLine(e.Type)
}

func extra(m chat.Message, field string) (s string) {
	_ = json.Unmarshal(m.Extra[field], &s) // a missing field is ""
	return s
}

func firstID(h client.History) string {
	var first struct{ ID string }
	if len(h.Messages) > 0 {
		_ = json.Unmarshal(h.Messages[0], &first)
	}
	return first.ID
}

func filesOf(m chat.Message) (names []string) {
	for _, p := range m.Parts {
		if p.Type == chat.TypeFile || p.Type == chat.TypeImage {
			names = append(names, cmp.Or(p.Filename, p.MediaType))
		}
	}
	return names
}

// document returns a conversation as Markdown.
func document(title string, all []Entry) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n", orElse(title, "Conversation"))
	for _, e := range all {
		switch e.Kind {
		case "user":
			fmt.Fprintf(&b, "\n## You\n\n%s\n", e.Text)
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

// modelItems returns the models, those of the configuration first.
func modelItems(list httpapi.ModelList) []Item {
	items := []Item{{Value: "default", Label: list.Default, Detail: "as configured"}}
	for _, configured := range []bool{true, false} {
		for _, m := range list.Models {
			if m.Configured != configured || m.Model == list.Default {
				continue
			}
			var facts []string
			if m.Name != "" && m.Name != m.Model {
				facts = append(facts, m.Name)
			}
			if m.ContextTokens > 0 {
				facts = append(facts, fmt.Sprintf("%dk context", m.ContextTokens/1000))
			}
			if m.Images {
				facts = append(facts, "pictures")
			}
			items = append(items, Item{Value: m.Model, Label: m.Model, Detail: strings.Join(facts, " · ")})
		}
	}
	return items
}

// rules lists the rules, the operator's own first.
func (s *service) rules() (string, error) {
	var answer struct {
		Rules []struct {
			Name    string             `json:"name"`
			Types   []string           `json:"types"`
			Enabled bool               `json:"enabled"`
			Does    string             `json:"does"`
			Today   map[string]int64   `json:"today"`
			Used    environment.Budget `json:"used"`
		} `json:"rules"`
	}
	if err := s.o.Server.Call(s.ctx, "GET", "/rules", nil, &answer); err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("Rules (\"lilac rules show NAME\" prints what a rule did)\n")
	for _, r := range answer.Rules {
		state := ""
		if !r.Enabled {
			state = "  (off)"
		}
		events := int64(0)
		for _, n := range r.Today {
			events += n
		}
		fmt.Fprintf(&b, "  %-24s %s → %s · %d events today%s\n", text.SingleLine(r.Name), text.SingleLine(strings.Join(r.Types, ", ")), text.SingleLine(r.Does), events, state)
	}
	return strings.TrimRight(b.String(), "\n"), nil
}

// tasks lists the newest background tasks of a conversation, or of all without one.
func (s *service) tasks(sessionID string) (string, error) {
	list, _, err := s.o.Server.Tasks(s.ctx, sessionID, client.Page{Limit: 20})
	if err != nil {
		return "", err
	}
	if len(list) == 0 {
		return "No background tasks. Say for example: run the tests in the background", nil
	}
	var b strings.Builder
	b.WriteString("Background tasks (\"lilac tasks output ID\" prints what a task wrote)\n")
	for _, t := range list {
		fmt.Fprintf(&b, "  %-10s %s · %s · %s\n", t.State, text.SingleLine(cmp.Or(t.Description, t.Command)), age(time.Since(time.UnixMilli(t.CreatedAt))), t.ID)
	}
	return strings.TrimRight(b.String(), "\n"), nil
}
