package terminal

import (
	"strings"

	tea "charm.land/bubbletea/v2"

	"lilac/internal/foundation/event"
)

// key handles a key press.
func (m Model) key(k tea.KeyPressMsg) (Model, []Effect) {
	leaving := m.leaving
	m.notice, m.leaving = "", false
	switch k.String() {
	case "ctrl+z":
		return m, []Effect{Suspend{}}
	case "ctrl+c":
		return m.interrupt(leaving)
	case "ctrl+d":
		if m.overlay.open || m.menu.modal() {
			return m.leave()
		}
	case "ctrl+o":
		switch {
		case m.overlay.open:
			m.closeOverlay()
		case m.printing:
			m.overlay.wanted = true
		default:
			m.overlay.open = true
		}
		return m, nil
	}
	switch {
	case m.overlay.open:
		return m.overlayKey(k), nil
	case m.menu.modal():
		return m.modalKey(k)
	case m.menu.what != "":
		if next, effects, ok := m.completionKey(k); ok {
			return next, effects
		}
	}
	return m.inputKey(k)
}

// interrupt handles Ctrl+C: it closes what is open, clears the input, stops the answer, or
// leaves, in this order.
func (m Model) interrupt(again bool) (Model, []Effect) {
	switch {
	case m.overlay.open || m.menu.modal():
		m.menu = menu{}
		m.closeOverlay()
	case m.prompt.value() != "":
		m.prompt.remember(m.prompt.expand(m.prompt.value()))
		m.prompt.clear()
		m.menu = menu{}
	case again:
		return m.leave()
	case m.run != nil && !m.run.stopping:
		m.leaving = true
		return m.stop()
	default:
		m.leaving = true
		m.notice = "To leave, press Ctrl+C again. A running answer continues."
	}
	return m, nil
}

func (m *Model) closeOverlay() {
	if m.overlay.open {
		m.held = m.frame + 2
	}
	m.overlay = overlay{}
}

// leave ends the program. The conversation stays on the terminal, without the input.
func (m Model) leave() (Model, []Effect) {
	m.left, m.overlay, m.menu = true, overlay{}, menu{}
	return m, []Effect{Leave{}}
}

func (m Model) overlayKey(k tea.KeyPressMsg) Model {
	page := max(m.height-3, 1)
	switch k.String() {
	case "esc", "q":
		m.closeOverlay()
		return m
	case "up", "k":
		m.overlay.up++
	case "down", "j":
		m.overlay.up--
	case "pgup", "b":
		m.overlay.up += page
	case "pgdown", "space", " ":
		m.overlay.up -= page
	case "home", "g":
		m.overlay.up = len(view{m}.transcript())
	case "end", "G", "shift+g":
		m.overlay.up = 0
	}
	m.overlay.up = max(0, min(m.overlay.up, len(view{m}.transcript())-m.height+2))
	return m
}

// modalKey handles a key while the user chooses a conversation or a model.
func (m Model) modalKey(k tea.KeyPressMsg) (Model, []Effect) {
	switch k.String() {
	case "esc":
		m.menu = menu{}
	case "up", "ctrl+p", "shift+tab":
		m.menu.move(-1)
	case "down", "ctrl+n", "tab":
		m.menu.move(1)
	case "backspace", "ctrl+h":
		if runes := []rune(m.menu.filter); len(runes) > 0 {
			m.menu.filter, m.menu.selected = string(runes[:len(runes)-1]), 0
		}
	case "ctrl+u":
		m.menu.filter, m.menu.selected = "", 0
	case "enter":
		item, ok := m.menu.current()
		if !ok {
			return m, nil
		}
		what := m.menu.what
		m.menu = menu{}
		if what == "session" {
			return m.open(item.Value)
		}
		return m.chooseModel(item.Value, "")
	default:
		if k.Text != "" {
			m.menu.filter, m.menu.selected = m.menu.filter+k.Text, 0
		}
	}
	return m, nil
}

// completionKey handles a key while completions are open. ok is false if it is an ordinary
// key of the input.
func (m Model) completionKey(k tea.KeyPressMsg) (next Model, effects []Effect, ok bool) {
	item, any := m.menu.current()
	switch k.String() {
	case "esc":
		m.menu = menu{dismissed: m.prompt.value()}
		return m, nil, true
	case "up", "ctrl+p":
		m.menu.move(-1)
		return m, nil, any
	case "down", "ctrl+n":
		m.menu.move(1)
		return m, nil, any
	case "tab", "enter":
		if !any {
			return m, nil, false
		}
		if m.menu.what == "command" {
			if k.String() == "enter" { // what the menu selects is what runs
				m.prompt.set(item.Value)
				m.menu = menu{}
				next, effects = m.submit(event.Steer)
				return next, effects, true
			}
			m.prompt.set(item.Value + " ")
			next, effects = m.complete()
			return next, effects, true
		}
		m.prompt.replaceMention(item.Value)
		next, effects = m.complete()
		return next, effects, true
	}
	return m, nil, false
}

func (m Model) inputKey(k tea.KeyPressMsg) (Model, []Effect) {
	empty := m.prompt.value() == ""
	if m.question != nil && empty && len(m.question.options) > 0 {
		switch key := k.String(); key {
		case "up", "down", "1", "2", "3", "4", "5", "6", "7", "8", "9":
			return m.selectOption(key), nil
		}
	}
	switch k.String() {
	case "ctrl+d":
		if empty {
			return m.leave()
		}
	case "esc":
		if m.Busy() {
			return m.stop()
		}
		return m, nil
	case "enter":
		if before := m.prompt.beforeCursor(); strings.HasSuffix(before, `\`) { // as in a shell
			m.prompt.area, _ = m.prompt.area.Update(tea.KeyPressMsg{Code: tea.KeyBackspace})
			m.prompt.area.InsertString("\n")
			return m, nil
		}
		return m.submit(event.Steer)
	case "tab":
		if m.Busy() && !empty {
			return m.submit(event.Prompt)
		}
		return m, nil
	case "shift+enter", "alt+enter", "ctrl+j":
		m.prompt.area.InsertString("\n")
		return m, nil
	case "up":
		if m.prompt.area.Line() == 0 && m.prompt.area.LineInfo().RowOffset == 0 {
			m.prompt.recall(-1)
			return m, nil
		}
	case "down":
		if m.prompt.atEnd() {
			m.prompt.recall(1)
			return m, nil
		}
	}
	m.prompt.area, _ = m.prompt.area.Update(k)
	return m.complete()
}

// selectOption moves the selection of the open question.
func (m Model) selectOption(key string) Model {
	q := *m.question
	switch count := len(q.options); key {
	case "up":
		q.selected = (q.selected + count - 1) % count
	case "down":
		q.selected = (q.selected + 1) % count
	default:
		q.selected = min(int(key[0]-'1'), count-1)
	}
	m.question = &q
	return m
}

// paste inserts text as one piece, whatever it contains.
func (m Model) paste(content string) (Model, []Effect) {
	switch {
	case m.overlay.open:
		return m, nil
	case m.menu.modal():
		m.menu.filter, m.menu.selected = m.menu.filter+oneLine(content), 0
		return m, nil
	}
	m.prompt.paste(content)
	return m.complete()
}

// complete opens or closes the completions for what is typed.
func (m Model) complete() (Model, []Effect) {
	value, before := m.prompt.value(), m.prompt.beforeCursor()
	if m.menu.dismissed != "" && m.menu.dismissed == value {
		return m, nil
	}
	selected := m.menu.selected
	old := m.menu
	m.menu = menu{}
	if name, ok := strings.CutPrefix(value, "/"); ok && before == value && !strings.ContainsAny(value, " \n") {
		if items := commandItems(name); len(items) > 0 {
			m.menu = menu{what: "command", items: items}
			if old.what == "command" {
				m.menu.selected = min(selected, len(items)-1)
			}
		}
		return m, nil
	}
	if prefix, ok := mentionAt(before); ok {
		m.menu = menu{what: "file", filter: prefix}
		if old.what == "file" && old.filter == prefix {
			m.menu = old
		}
		return m, []Effect{Find{prefix}}
	}
	return m, nil
}

func oneLine(s string) string { return strings.Join(strings.Fields(clean(s)), " ") }
