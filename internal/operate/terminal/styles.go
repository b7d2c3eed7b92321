package terminal

import (
	"charm.land/lipgloss/v2"

	"lilac/internal/operate/terminal/markdown"
)

// styles are the colors of the terminal. Except for the accent, they are the terminal's
// own 16 colors, so they follow its theme.
type styles struct {
	plain, bold, faint, accent, good, bad, warn lipgloss.Style
	markdown                                    markdown.Styles
}

// newStyles returns the styles for a dark or a light background.
func newStyles(dark bool) styles {
	plain := lipgloss.NewStyle()
	// Faint text of many terminals is too dim on a light background.
	faint := plain.Foreground(lipgloss.BrightBlack)
	accent := plain.Foreground(lipgloss.LightDark(dark)(lipgloss.Color("#7b3fc4"), lipgloss.Color("#b48ef7")))
	s := styles{
		plain: plain, bold: plain.Bold(true), faint: faint, accent: accent,
		good: plain.Foreground(lipgloss.Green), bad: plain.Foreground(lipgloss.Red), warn: plain.Foreground(lipgloss.Yellow),
	}
	s.markdown = markdown.Styles{
		Text: plain, Heading: accent.Bold(true), Faint: faint, Marker: accent,
		Link: plain.Foreground(lipgloss.Blue).Underline(true), Code: plain.Foreground(lipgloss.Cyan),
		Comment: faint.Italic(true), Keyword: plain.Foreground(lipgloss.Magenta), Literal: plain.Foreground(lipgloss.Green),
		Number: plain.Foreground(lipgloss.Yellow), Function: plain.Foreground(lipgloss.Blue),
		Added: plain.Foreground(lipgloss.Green), Removed: plain.Foreground(lipgloss.Red),
	}
	return s
}
