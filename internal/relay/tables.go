package relay

import (
	"regexp"
	"strings"
	"unicode"
)

// maxTable is the widest table that is drawn, in characters: a wider one would
// be wrapped and is shown as a list.
const maxTable = 100

// readable makes of a Markdown table, which chat platforms show as they come,
// a drawing in a code block, or a list if it is too wide or has links, which
// would be none in code. Code stays as it is.
func readable(text string) string {
	if !strings.Contains(text, "|") {
		return text
	}
	lines := strings.SplitAfter(text, "\n")
	var out strings.Builder
	var open fence
	for i := 0; i < len(lines); {
		if open.length == 0 && i+1 < len(lines) {
			if rows, n := table(lines[i:]); n > 0 {
				out.WriteString(draw(rows))
				i += n
				continue
			}
		}
		open = open.through(lines[i])
		out.WriteString(lines[i])
		i++
	}
	return out.String()
}

// table reads the table that the lines begin with; n is 0 if they do not
// (GitHub Flavored Markdown, "Tables"). The row of dashes is left out.
func table(lines []string) (rows [][]string, n int) {
	head, dashes := cells(lines[0]), cells(lines[1])
	if len(head) < 2 && !strings.HasPrefix(strings.TrimSpace(lines[0]), "|") || len(head) != len(dashes) {
		return nil, 0
	}
	for _, d := range dashes {
		if d = strings.Trim(d, ":"); d == "" || strings.Trim(d, "-") != "" {
			return nil, 0
		}
	}
	rows, n = [][]string{head}, 2
	for ; n < len(lines) && strings.Contains(lines[n], "|") && strings.TrimSpace(lines[n]) != ""; n++ {
		row := cells(lines[n])
		for len(row) < len(head) {
			row = append(row, "")
		}
		rows = append(rows, row[:len(head)])
	}
	return rows, n
}

// cells takes a row apart; \| is no border.
func cells(line string) []string {
	line = strings.TrimSpace(line)
	if !strings.Contains(line, "|") {
		return nil
	}
	line = strings.TrimPrefix(line, "|")
	var out []string
	var cell strings.Builder
	escaped := false
	for _, r := range line {
		switch {
		case escaped:
			if r != '|' {
				cell.WriteByte('\\')
			}
			cell.WriteRune(r)
			escaped = false
		case r == '\\':
			escaped = true
		case r == '|':
			out = append(out, strings.TrimSpace(cell.String()))
			cell.Reset()
		default:
			cell.WriteRune(r)
		}
	}
	if escaped {
		cell.WriteByte('\\')
	}
	if rest := strings.TrimSpace(cell.String()); rest != "" || !strings.HasSuffix(line, "|") {
		out = append(out, rest)
	}
	return out
}

// alive matches what must not stand in a code block: its end, links, mentions.
var alive = regexp.MustCompile("```|://|\\]\\(|<[@#]")

// width is how many columns a text takes where all characters are as wide,
// or twice as wide: those of East Asia, and emoji.
func width(s string) (n int) {
	for _, r := range s {
		switch {
		case unicode.Is(unicode.M, r) || unicode.Is(unicode.Cf, r):
		case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul), r >= 0xFF01 && r <= 0xFF60, r >= 0x1F300 && r <= 0x1FAFF:
			n += 2
		default:
			n++
		}
	}
	return n
}

func draw(rows [][]string) string {
	widths, total := make([]int, len(rows[0])), 0
	plain := true // no cell could end the code block, or has what is none in it
	for _, row := range rows {
		for i, c := range row {
			widths[i] = max(widths[i], width(c))
			plain = plain && !alive.MatchString(c)
		}
	}
	for _, w := range widths {
		total += w + 2
	}
	var out strings.Builder
	if total > maxTable || !plain {
		for _, row := range rows[1:] {
			for i, c := range row {
				bullet := "  - "
				if i == 0 {
					bullet = "- "
				}
				out.WriteString(bullet + "**" + rows[0][i] + "**: " + c + "\n")
			}
		}
		return out.String()
	}
	out.WriteString("```\n")
	for n, row := range rows {
		var line strings.Builder
		for i, c := range row {
			line.WriteString(c + strings.Repeat(" ", widths[i]-width(c)+2))
		}
		out.WriteString(strings.TrimRight(line.String(), " ") + "\n")
		if n == 0 {
			for i, w := range widths {
				if i > 0 {
					out.WriteString("  ")
				}
				out.WriteString(strings.Repeat("─", w))
			}
			out.WriteByte('\n')
		}
	}
	out.WriteString("```\n")
	return out.String()
}
