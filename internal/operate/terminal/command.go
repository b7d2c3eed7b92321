package terminal

import (
	"fmt"
	"strings"
	"time"

	"lilac/internal/foundation/text"
)

// command runs a line that begins with a slash.
func (m Model) command(line string) (Model, []Effect) {
	fields := strings.Fields(strings.TrimPrefix(line, "/"))
	name, args := "", fields
	if len(fields) > 0 {
		name, args = fields[0], fields[1:]
	}
	known := name == "exit"
	for _, c := range commands {
		known = known || c.name == name
	}
	if !known || strings.Contains(strings.TrimSpace(line), "\n") {
		m.notice = "There is no command /" + text.TruncateRunes(text.SingleLine(name), 40) + "."
		if near := nearest(name); near != "" {
			m.notice += " Did you mean /" + near + "?"
		}
		m.notice += " To send it as text, put a space before it."
		return m, nil
	}
	m.prompt.remember(line)
	m.prompt.clear()
	switch name {
	case "quit", "exit":
		return m.leave()
	case "stop":
		return m.stop()
	case "help":
		m.add(block{kind: kindText, text: help()})
	case "new":
		return m.fresh()
	case "resume":
		if len(args) > 0 {
			return m.open(args[0])
		}
		return m.choose("session")
	case "model":
		switch len(args) {
		case 0:
			return m.choose("model")
		case 1:
			return m.chooseModel(args[0], "")
		}
		return m.chooseModel(args[0], args[1])
	case "rules":
		return m, []Effect{List{What: "rules"}}
	case "tasks":
		return m, []Effect{List{What: "tasks", Session: m.session}}
	case "copy":
		return m.copyAnswer()
	case "export":
		if m.session == "" {
			m.notice = "There is nothing to export yet."
			return m, nil
		}
		path := strings.Join(args, " ")
		if path == "" {
			path = exportName(m.title, m.now)
		}
		return m, []Effect{Export{m.session, m.title, path}}
	}
	return m, nil
}

// exportName returns the name of the file for a conversation.
func exportName(title string, now time.Time) string {
	var b strings.Builder
	for _, r := range strings.ToLower(title) {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	name := strings.Trim(text.TruncateRunes(b.String(), 40), "-…")
	return fmt.Sprintf("%s-%s.md", orElse(name, "conversation"), now.Format("2006-01-02-150405"))
}

// fresh begins a new conversation. It is created with its first message, so that leaving
// again creates none.
func (m Model) fresh() (Model, []Effect) {
	if m.session == "" && len(m.outbox) == 0 {
		m.notice = "This is a new conversation."
		return m, nil
	}
	m.session, m.title, m.model = "", "", ""
	m.run, m.outbox, m.question, m.more, m.outage, m.following = nil, nil, nil, nil, "", false
	m.closeBlocks()
	m.add(block{kind: kindNote, text: "New conversation"})
	return m, []Effect{Follow{}}
}

// open continues another conversation.
func (m Model) open(session string) (Model, []Effect) {
	m.opening = true
	m.closeBlocks()
	return m, []Effect{Open{session}}
}

// choose opens a menu of conversations or models.
func (m Model) choose(what string) (Model, []Effect) {
	m.menu = menu{what: what, loading: true}
	return m, []Effect{List{What: what, Session: m.session}}
}

// chooseModel chooses the model of this conversation; "default" is the configured one.
func (m Model) chooseModel(model, effort string) (Model, []Effect) {
	if m.session == "" {
		m.notice = "Send a first message, then choose the model of this conversation."
		return m, nil
	}
	if model == "default" {
		model = ""
	}
	return m, []Effect{Choose{m.session, model, effort}}
}

// copyAnswer copies the last answer as Markdown.
func (m Model) copyAnswer() (Model, []Effect) {
	var parts []string
	request := ""
	for i := len(m.blocks) - 1; i >= 0; i-- {
		b := m.blocks[i]
		if b.kind != kindAnswer || len(parts) > 0 && b.request != request {
			if len(parts) > 0 && b.kind == kindUser {
				break
			}
			continue
		}
		request = b.request
		parts = append([]string{strings.Trim(b.text, "\n")}, parts...)
	}
	if len(parts) == 0 {
		m.notice = "There is no answer to copy yet."
		return m, nil
	}
	m.notice = "Copied the last answer. If it does not arrive, your terminal does not allow programs to copy (OSC 52)."
	return m, []Effect{Copy{strings.Join(parts, "\n\n")}}
}

// help returns the commands and keys.
func help() string {
	var b strings.Builder
	b.WriteString("Commands\n")
	for _, c := range commands {
		fmt.Fprintf(&b, "  %-25s %s\n", strings.TrimSpace("/"+c.name+" "+c.args), c.help)
	}
	b.WriteString("\nKeys\n")
	for _, k := range [][2]string{
		{"Enter", "send; while Lilac works, add to the answer in progress"},
		{"Tab", "while Lilac works: queue the message for afterwards"},
		{"Shift+Enter, Ctrl+J", "new line (also: \\ and Enter)"},
		{"Esc", "stop the answer"},
		{"Up, Down", "earlier messages"},
		{"@", "attach a file or picture of this machine"},
		{"Ctrl+O", "the whole conversation, with the output of tools"},
		{"Ctrl+C", "clear the input, stop the answer, or leave"},
		{"Ctrl+D", "leave; a running answer continues"},
	} {
		fmt.Fprintf(&b, "  %-25s %s\n", k[0], k[1])
	}
	return strings.TrimRight(b.String(), "\n")
}
