package terminal

import (
	"strings"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/text"
)

// Item is a line of a menu.
type Item struct{ Value, Label, Detail string }

// menu is a list below the input: completions of what is typed, or a choice that takes
// the place of the input.
type menu struct {
	// what is command, file, session, or model; "" means that no menu is open.
	what     string
	items    []Item
	filter   string
	selected int
	loading  bool
	// dismissed is the input for which the user closed the completions.
	dismissed string
}

// menuRows is the number of visible lines of a menu.
const menuRows = 8

// modal reports whether the menu takes the place of the input.
func (m menu) modal() bool { return m.what == "session" || m.what == "model" }

// visible returns the items that match the filter.
func (m menu) visible() (out []Item) {
	words := strings.Fields(strings.ToLower(m.filter))
	for _, item := range m.items {
		all := strings.ToLower(item.Label + " " + item.Detail)
		ok := true
		for _, w := range words {
			ok = ok && strings.Contains(all, w)
		}
		if ok {
			out = append(out, item)
		}
	}
	return out
}

// move moves the selection by n, around the ends.
func (m *menu) move(n int) {
	if count := len(m.visible()); count > 0 {
		m.selected = (m.selected + n + count) % count
	}
}

// current returns the selected item.
func (m menu) current() (Item, bool) {
	items := m.visible()
	if m.selected >= len(items) {
		return Item{}, false
	}
	return items[m.selected], true
}

// command is a line that begins with a slash.
type command struct {
	name, args, help string
}

// commands are the commands in the order of the menu.
var commands = []command{
	{"new", "", "start a new conversation"},
	{"resume", "[ID]", "continue another conversation"},
	{"model", "[NAME [EFFORT]]", "choose the model of this conversation"},
	{"rules", "", "list the rules for events"},
	{"tasks", "", "list background tasks"},
	{"copy", "", "copy the last answer"},
	{"export", "[FILE]", "write the conversation to a Markdown file"},
	{"stop", "", "stop the answer"},
	{"help", "", "show commands and keys"},
	{"quit", "", "leave; a running answer continues"},
}

// nearest returns the command that a misspelled name probably means, or "".
func nearest(name string) string {
	best, found := 3, ""
	for _, c := range commands {
		if strings.HasPrefix(c.name, name) && name != "" {
			return c.name
		}
		if d := fault.Distance(name, c.name); d < best {
			best, found = d, c.name
		}
	}
	return found
}

// commandItems returns the completions of a command that is being typed.
func commandItems(prefix string) (out []Item) {
	for _, c := range commands {
		if strings.HasPrefix(c.name, prefix) {
			out = append(out, Item{Value: "/" + c.name, Label: strings.TrimSpace("/" + c.name + " " + c.args), Detail: c.help})
		}
	}
	return out
}

// cleanItems removes control characters from items of the server.
func cleanItems(items []Item) []Item {
	out := make([]Item, len(items))
	for i, item := range items {
		out[i] = Item{Value: item.Value, Label: text.SingleLine(item.Label), Detail: text.SingleLine(item.Detail)}
	}
	return out
}
