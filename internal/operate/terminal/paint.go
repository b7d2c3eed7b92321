package terminal

import (
	"fmt"
	"strings"
	"time"

	"charm.land/bubbles/v2/spinner"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"lilac/internal/operate/terminal/markdown"
)

// painter draws blocks for a size of the terminal.
type painter struct {
	styles        styles
	width, height int
	// frame counts the frames of the spinner.
	frame int
}

// maxLine is the width at which text wraps on wide terminals, in cells. Longer lines are
// hard to read.
const maxLine = 100

// folded is the number of lines of a tool's output that are shown.
const folded = 3

// fit truncates a line to the width without an indentation. The last column stays empty:
// what a terminal does after a character there differs.
func (p painter) fit(line string, indent int) string {
	return ansi.Truncate(line, max(p.width-indent-1, 0), "…")
}

// measure is the width of text.
func (p painter) measure() int { return max(min(p.width, maxLine)-3, 10) }

// spaced returns the lines of a block, after an empty line where one separates it from the
// block before it.
func (p painter) spaced(blocks []block, i int, expanded bool) []string {
	lines := p.render(&blocks[i], expanded)
	if len(lines) == 0 {
		return nil
	}
	if i > 0 {
		before, now := blocks[i-1].kind, blocks[i].kind
		if before == now && (now == kindNote || now == kindFile) || now == kindEnd {
			return lines
		}
	}
	return append([]string{""}, lines...)
}

// memo keeps the rendered lines of a block.
type memo struct {
	width    int
	expanded bool
	text     string
	lines    []string
}

// render returns the lines of a block. Of those that still change, only answers are kept.
func (p painter) render(b *block, expanded bool) []string {
	if c := b.memo; c != nil && c.width == p.width && c.expanded == expanded && c.text == b.text {
		return c.lines
	}
	lines := p.draw(b, expanded)
	if b.open && b.kind != kindAnswer {
		return lines
	}
	b.memo = &memo{p.width, expanded, b.text, lines}
	return lines
}

func (p painter) draw(b *block, expanded bool) []string {
	s, width := p.styles, p.measure()
	switch b.kind {
	case kindUser:
		lines := indent(plain(b.text, width, s.bold), s.accent.Render("› "), "  ")
		if b.output != "" {
			lines = append(lines, "  "+s.faint.Render(p.fit("⊕ "+b.output, 2)))
		}
		return lines
	case kindAnswer:
		if strings.TrimSpace(b.text) == "" {
			return nil
		}
		return indent(markdown.Render(b.text, width, s.markdown), "  ", "  ")
	case kindThinking:
		return p.thinking(b, expanded)
	case kindTool:
		return p.toolLines(b, expanded)
	case kindNote:
		return indent(plain(b.text, width, s.faint), s.accent.Render("◆ "), "  ")
	case kindError:
		return indent(plain(b.text, width, s.bad), s.bad.Render("✗ "), "  ")
	case kindFile:
		return indent(plain(b.text, width, s.plain), s.good.Render("⊕ "), "  ")
	case kindEnd:
		return indent(plain(b.text, width, s.faint), "  ", "  ")
	case kindText:
		return indent(plain(b.text, width, s.plain), "  ", "  ")
	}
	return nil
}

func (p painter) thinking(b *block, expanded bool) []string {
	s := p.styles
	if expanded {
		return indent(plain(strings.TrimSpace(b.text), p.measure(), s.faint.Italic(true)), s.faint.Render("✻ "), "  ")
	}
	if b.open {
		return nil // the status line says it
	}
	how := "✻ Thought"
	if d := b.until.Sub(b.since); !b.since.IsZero() && d.Seconds() >= 1 {
		how += " for " + duration(d)
	}
	return []string{s.faint.Render(how)}
}

// toolLines shows a tool with the first lines of its output.
func (p painter) toolLines(b *block, expanded bool) []string {
	s := p.styles
	sign := s.good.Render("● ")
	switch {
	case b.open:
		sign = s.accent.Render(p.spin() + " ")
	case b.failed:
		sign = s.bad.Render("● ")
	}
	head := b.text
	if !expanded {
		head = ansi.Truncate(head, p.measure()-ansi.StringWidth(b.name)-1, "…")
	}
	lines := indent(wrapPlain(strings.TrimSpace(s.bold.Render(b.name)+" "+head), p.measure()), sign, "  ")
	output := strings.TrimRight(b.output, "\n ")
	if output == "" {
		return lines
	}
	style := s.faint
	if b.failed {
		style = s.bad
	}
	all := strings.Split(strings.ReplaceAll(output, "\t", "    "), "\n")
	shown := all
	if !expanded && len(all) > folded+1 {
		shown = all[:folded]
	}
	var body []string
	for _, l := range shown {
		if expanded {
			body = append(body, plain(l, p.measure()-2, style)...)
		} else {
			body = append(body, style.Render(ansi.Truncate(l, p.measure()-2, "…")))
		}
	}
	if rest := len(all) - len(shown); rest > 0 {
		body = append(body, s.faint.Italic(true).Render(fmt.Sprintf("… %d more lines (Ctrl+O)", rest)))
	}
	return append(lines, indent(body, s.faint.Render("  └ "), "    ")...)
}

// spin is the present frame of the spinner.
func (p painter) spin() string {
	frames := spinner.MiniDot.Frames
	return frames[p.frame%len(frames)]
}

// plain wraps text in one style.
func plain(content string, width int, style lipgloss.Style) (lines []string) {
	for _, l := range wrapPlain(strings.ReplaceAll(content, "\t", "    "), width) {
		lines = append(lines, style.Render(l))
	}
	return lines
}

func wrapPlain(content string, width int) []string {
	return strings.Split(ansi.Wrap(content, max(width, 1), ""), "\n")
}

// indent puts first before the first line, and rest before the others.
func indent(lines []string, first, rest string) []string {
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = rest + l
		if i == 0 {
			out[i] = first + l
		}
	}
	return out
}

// size formats a number of bytes.
func size(n int64) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%d kB", n>>10)
	}
	return fmt.Sprintf("%d bytes", n)
}

// count formats a number of tokens.
func count(n int64) string {
	if n >= 1000 {
		return fmt.Sprintf("%.1fk", float64(n)/1000)
	}
	return fmt.Sprint(n)
}

// duration formats a time for a status line.
func duration(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%d s", int(d.Seconds()))
	}
	return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
}
