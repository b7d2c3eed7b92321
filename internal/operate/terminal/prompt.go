package terminal

import (
	"fmt"
	"strings"

	"charm.land/bubbles/v2/key"
	"charm.land/bubbles/v2/textarea"
	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
)

// Pasted text that is longer is shown as a placeholder.
const (
	maxPasteLines = 8
	maxPasteBytes = 1200
)

func newPrompt(s styles) prompt {
	area := textarea.New()
	area.Prompt, area.ShowLineNumbers, area.CharLimit = "", false, 0
	area.DynamicHeight, area.MinHeight, area.MaxHeight, area.MaxContentHeight = true, 1, 8, 1<<20
	area.SetVirtualCursor(false)
	// The clipboard of the machine that runs Lilac is not the user's over SSH. Terminals
	// paste by themselves.
	area.KeyMap.Paste = key.NewBinding()
	area.KeyMap.InsertNewline = key.NewBinding()
	area.KeyMap.CopySelection = key.NewBinding()
	area.SetHeight(1)
	area.Focus()
	p := prompt{area: area}
	p.restyle(s)
	return p
}

func (p *prompt) restyle(s styles) {
	look := p.area.Styles()
	look.Focused = textarea.StyleState{Placeholder: s.faint, Text: s.plain, Selection: lipgloss.NewStyle().Reverse(true)}
	look.Blurred = look.Focused
	look.Cursor.Shape, look.Cursor.Blink, look.Cursor.Color = tea.CursorBar, true, nil
	p.area.SetStyles(look)
}

func (p *prompt) value() string { return p.area.Value() }

// beforeCursor returns the text before the cursor.
func (p *prompt) beforeCursor() string {
	lines := strings.Split(p.area.Value(), "\n")
	row := min(p.area.Line(), len(lines)-1)
	current := []rune(lines[row])
	column := min(p.area.Column(), len(current))
	return strings.Join(append(lines[:row:row], string(current[:column])), "\n")
}

// atEnd reports whether the cursor is on the last line.
func (p *prompt) atEnd() bool {
	info := p.area.LineInfo()
	return p.area.Line() == p.area.LineCount()-1 && info.RowOffset >= info.Height-1
}

func (p *prompt) set(value string) {
	p.area.SetValue(value)
	p.area.MoveToEnd()
}

func (p *prompt) clear() {
	p.area.Reset()
	p.pastes = nil
	p.at, p.draft = len(p.history), ""
}

// paste inserts pasted text. Long text becomes a placeholder, which expand replaces.
func (p *prompt) paste(content string) {
	content = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(content)
	if path, ok := droppedFile(content); ok {
		p.area.InsertString(quoteMention(path) + " ")
		return
	}
	content = clean(content)
	if lines := strings.Count(content, "\n") + 1; lines > maxPasteLines || len(content) > maxPasteBytes {
		p.pastes = append(p.pastes, content)
		p.area.InsertString(placeholder(len(p.pastes), content))
		return
	}
	p.area.InsertString(content)
}

func placeholder(n int, content string) string {
	return fmt.Sprintf("[Pasted text %d, %d lines]", n, strings.Count(content, "\n")+1)
}

// expand replaces the placeholders of pasted text.
func (p *prompt) expand(value string) string {
	var pairs []string
	for i, content := range p.pastes {
		pairs = append(pairs, placeholder(i+1, content), content)
	}
	return strings.NewReplacer(pairs...).Replace(value)
}

// remember appends messages to the history.
func (p *prompt) remember(messages ...string) {
	for _, message := range messages {
		message = strings.TrimSpace(clean(message))
		if n := len(p.history); message != "" && (n == 0 || p.history[n-1] != message) {
			p.history = append(p.history, message)
		}
	}
	if extra := len(p.history) - maxHistory; extra > 0 {
		p.history = append([]string(nil), p.history[extra:]...)
	}
	p.at = len(p.history)
}

// recall shows an earlier message (-1) or a later one (1); after the last one comes what
// was typed before.
func (p *prompt) recall(n int) {
	at := p.at + n
	if at < 0 || at > len(p.history) {
		return
	}
	if p.at == len(p.history) {
		p.draft = p.value()
	}
	p.at = at
	if at == len(p.history) {
		p.set(p.draft)
		return
	}
	p.set(p.history[at])
}

// replaceMention completes the path before the cursor.
func (p *prompt) replaceMention(path string) {
	before := p.beforeCursor()
	prefix, _ := mentionAt(before)
	after := strings.TrimPrefix(p.value(), before)
	start := strings.TrimSuffix(before, prefix)
	start = strings.TrimSuffix(strings.TrimSuffix(start, `"`), "@")
	mention := quoteMention(path)
	if strings.HasSuffix(path, "/") { // go on inside of the folder
		mention = strings.TrimSuffix(mention, `"`)
	} else {
		mention += " "
	}
	p.set(start + mention + after)
	if after != "" {
		for range len([]rune(after)) {
			p.area, _ = p.area.Update(tea.KeyPressMsg{Code: tea.KeyLeft})
		}
	}
}
