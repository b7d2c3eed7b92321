package terminal

import (
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"lilac/internal/foundation/event"
	"lilac/internal/foundation/text"
)

// NewModel returns the state before the first size of the terminal is known.
func NewModel(server, version, model string, now time.Time) Model {
	s := newStyles(true)
	return Model{conversation: conversation{now: now, modelOfServer: text.SingleLine(model)}, server: clean(server), version: clean(version), painter: painter{styles: s}, prompt: newPrompt(s)}
}

// View returns the changing part of the screen, or the whole conversation.
func (m Model) View() tea.View { return view{m}.screen() }

// view draws the parts of the screen around the blocks.
type view struct{ Model }

func (m view) screen() tea.View {
	var v tea.View
	if m.width == 0 {
		return v
	}
	v.WindowTitle = "lilac"
	if m.title != "" {
		v.WindowTitle += " · " + m.title
	}
	if m.overlay.open {
		v.AltScreen = true
		v.SetContent(m.overlayView())
		return v
	}
	if m.left {
		// The last line is where the terminal's prompt begins.
		v.SetContent(strings.Join(append(m.liveLines(m.height-2), ""), "\n"))
		return v
	}
	above := m.aboveInput()
	lines := append(m.liveLines(m.height-len(above)-m.inputHeight()-1), above...)
	if !m.menu.modal() {
		if c := m.prompt.area.Cursor(); c != nil {
			c.Y += len(lines) + 1
			c.X += 2
			v.Cursor = c
		}
	}
	lines = append(lines, m.inputLines()...)
	v.SetContent(strings.Join(lines, "\n"))
	return v
}

// Header returns the lines to print at the start.
func (m Model) Header() string {
	s := m.styles
	about := m.server
	if m.modelOfServer != "" {
		about = m.modelOfServer + " · " + about
	}
	return strings.Join([]string{
		"",
		s.accent.Bold(true).Render("✿ Lilac") + s.faint.Render(strings.TrimRight(" "+m.version, " ")),
		s.faint.Render("  " + about),
		s.faint.Render("  /help shows commands and keys · @ attaches a file"),
	}, "\n")
}

// liveLines returns the blocks that still change. If they do not fit, their end is shown.
func (m view) liveLines(room int) (lines []string) {
	lines = append(lines, m.late...)
	for i := m.printed; i < len(m.blocks); i++ {
		lines = append(lines, m.spaced(m.blocks, i, false)...)
	}
	lines = lines[min(m.partial, len(lines)):]
	if len(lines) > room {
		lines = append([]string{m.styles.faint.Render("  ⋯")}, lines[len(lines)-max(room-1, 0):]...)
	}
	return lines
}

// aboveInput returns the messages that wait, the question, and the status.
func (m view) aboveInput() (lines []string) {
	lines = append(lines, m.outboxLines()...)
	lines = append(lines, m.questionLines()...)
	return append(lines, "", m.status()) // the height is the same without a status
}

// outboxRows limits the messages that are shown while they wait.
const outboxRows = 4

func (m view) outboxLines() (lines []string) {
	s := m.styles
	place := 0
	for i, o := range m.outbox {
		label := "sending"
		switch {
		case o.queue != event.Prompt && o.sent && m.run != nil && m.run.id == o.requestID:
			label = "the answer reads it at the next step"
		case o.sent:
			place++
			label = "queued"
			if m.run != nil || place > 1 {
				label = "queued, " + ordinal(place) + " in line"
			}
		}
		if i == 0 {
			lines = append(lines, "")
		}
		if i >= outboxRows {
			return append(lines, s.faint.Render(fmt.Sprintf("  … %d more", len(m.outbox)-i)))
		}
		room := max(m.measure()-len(label)-5, 8)
		lines = append(lines, s.accent.Render("› ")+s.faint.Render(ansi.Truncate(oneLine(o.text), room, "…")+"  ("+label+")"))
	}
	return lines
}

func ordinal(n int) string {
	if words := []string{"first", "second", "third", "fourth"}; n <= len(words) {
		return words[n-1]
	}
	return fmt.Sprintf("%dth", n)
}

func (m view) questionLines() []string {
	if m.question == nil {
		return nil
	}
	s := m.styles
	q := m.question
	lines := append([]string{""}, indent(plain(q.text, m.measure(), s.bold), s.warn.Render("? "), "  ")...)
	if q.details != "" {
		lines = append(lines, indent(plain(q.details, m.measure(), s.markdown.Code), "  ", "  ")...)
	}
	for i, o := range q.options {
		line := fmt.Sprintf("%d %s", i+1, o.label)
		if i == q.selected {
			lines = append(lines, s.accent.Render("❯ "+m.fit(line, 2)))
		} else {
			lines = append(lines, "  "+m.fit(line, 2))
		}
	}
	hint := "Type your answer and press Enter"
	if len(q.options) > 0 {
		hint = "Choose with ↑↓ or a number, then press Enter; or type an answer"
	}
	return append(lines, s.faint.Render("  "+m.fit(hint, 2)))
}

// status says what is going on.
func (m view) status() string {
	s := m.styles
	what := ""
	switch {
	case m.outage != "":
		return s.warn.Render(m.spin()+" ") + s.warn.Render(m.fit("Waiting: "+m.outage, 2))
	case m.opening && len(m.outbox) == 0:
		what = "Opening the conversation"
	case m.run != nil && m.run.stopping:
		what = "Stopping"
	case m.run != nil:
		what = m.run.phase
	case len(m.outbox) > 0:
		what = "Sending"
		if m.outbox[0].sent {
			what = "Waiting for its turn"
		}
	default:
		return ""
	}
	detail := ""
	if m.run != nil {
		if d := m.now.Sub(m.run.since); !m.run.since.IsZero() && d.Seconds() >= 1 {
			detail += " · " + duration(d)
		}
		if m.question == nil && !m.run.stopping {
			detail += " · Esc stops"
		}
	}
	return s.accent.Render(m.spin()+" ") + what + s.faint.Render(m.fit(detail, ansi.StringWidth(what)+2))
}

// inputHeight is the height of the input with its borders and what is below it.
func (m view) inputHeight() int { return len(m.inputLines()) }

// inputLines returns the input, its borders, and the menu or the hint below it.
func (m view) inputLines() []string {
	s := m.styles
	border := s.faint.Render(strings.Repeat("─", m.width))
	if m.menu.modal() {
		return append(m.modalLines(), border)
	}
	lines := []string{border}
	for i, l := range strings.Split(m.prompt.area.View(), "\n") {
		mark := "  "
		if i == 0 {
			mark = s.accent.Render("› ")
		}
		lines = append(lines, mark+l)
	}
	lines = append(lines, border)
	if m.menu.what != "" && len(m.menu.visible()) > 0 {
		return append(lines, m.menuLines(min(menuRows, max(m.height/3, 2)))...)
	}
	return append(lines, m.hint())
}

// hint is the line below the input.
func (m view) hint() string {
	s := m.styles
	if m.notice != "" {
		return s.warn.Render("  " + m.fit(m.notice, 2))
	}
	left := "Enter sends · Shift+Enter new line"
	switch {
	case m.run != nil && m.prompt.value() != "":
		left = "Enter adds to the answer · Tab queues"
	case m.run != nil:
		left = "What you send now is added to the answer · Esc stops it"
	case m.prompt.value() == "":
		left = "/ commands · @ files · Ctrl+O everything"
	}
	right := orElse(m.model, m.modelOfServer)
	gap := m.width - 4 - ansi.StringWidth(left) - ansi.StringWidth(right)
	if gap < 2 {
		return s.faint.Render("  " + m.fit(left, 2))
	}
	return s.faint.Render("  " + left + strings.Repeat(" ", gap) + right)
}

// menuLines returns at most rows items around the selected one.
func (m view) menuLines(rows int) (lines []string) {
	s := m.styles
	items := m.menu.visible()
	first := max(0, min(m.menu.selected-rows/2, len(items)-rows))
	widest := 0
	for _, item := range items[first:min(first+rows, len(items))] {
		widest = max(widest, ansi.StringWidth(item.Label))
	}
	widest = min(widest, m.width*2/3)
	for i := first; i < min(first+rows, len(items)); i++ {
		label := ansi.Truncate(items[i].Label, widest, "…")
		pad := strings.Repeat(" ", widest-ansi.StringWidth(label)+2)
		detail := ansi.Truncate(items[i].Detail, max(m.width-widest-6, 0), "…")
		if i == m.menu.selected {
			lines = append(lines, s.accent.Render("❯ "+label)+pad+detail)
		} else {
			lines = append(lines, "  "+label+s.faint.Render(pad+detail))
		}
	}
	if len(items) > rows {
		lines = append(lines, s.faint.Render(fmt.Sprintf("  %d of %d", m.menu.selected+1, len(items))))
	}
	return lines
}

// modalLines returns the choice of a conversation or a model.
func (m view) modalLines() []string {
	s := m.styles
	title := map[string]string{"session": "Continue a conversation", "model": "Choose the model of this conversation"}[m.menu.what]
	border := s.faint.Render(strings.Repeat("─", m.width))
	filter := s.faint.Render("type to filter · Enter chooses · Esc closes")
	if m.menu.filter != "" {
		filter = clean(m.menu.filter) + s.accent.Render("▏")
	}
	lines := []string{border, s.accent.Bold(true).Render("  "+title) + "  " + ansi.Truncate(filter, max(m.width-len(title)-6, 0), "…"), ""}
	switch {
	case m.menu.loading:
		return append(lines, s.faint.Render("  Loading…"))
	case len(m.menu.items) == 0:
		return append(lines, s.faint.Render("  There is no other one."))
	case len(m.menu.visible()) == 0:
		return append(lines, s.faint.Render("  Nothing matches."))
	}
	return append(lines, m.menuLines(max(min(m.height-10, 12), 3))...)
}

// transcript returns the lines of the whole conversation, with all output.
func (m view) transcript() (lines []string) {
	for i := range m.blocks {
		lines = append(lines, m.spaced(m.blocks, i, true)...)
	}
	return lines
}

func (m view) overlayView() string {
	s := m.styles
	lines := m.transcript()
	room := m.height - 2
	end := max(min(len(lines)-m.overlay.up, len(lines)), 0)
	start := max(end-room, 0)
	shown := append([]string(nil), lines[start:end]...)
	for len(shown) < room {
		shown = append(shown, "")
	}
	where := "end"
	if m.overlay.up > 0 {
		where = fmt.Sprintf("%d more lines below", m.overlay.up)
	}
	foot := "  Ctrl+O or Esc closes · ↑↓ PgUp PgDn Home End scroll · " + where
	return strings.Join(append(shown, s.faint.Render(strings.Repeat("─", m.width)), s.faint.Render(m.fit(foot, 0))), "\n")
}
