package relay

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
)

const (
	// maxTable is the widest table that is drawn, in characters: a wider one would
	// be wrapped and is shown as a list.
	maxTable = 100
	// tableSlack is what a drawing may have, in bytes, beyond twice its source: a
	// list repeats the heads, and in a small table they weigh more than the cells.
	tableSlack = 1000
)

// readable makes of a Markdown table, which chat platforms show as they come,
// a drawing in a code block, or a list if it is too wide or has links, which
// would be none in code. It stays as it is without rows, and if it would become
// much longer. Code stays as it is.
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
				source := strings.Join(lines[i:i+n], "")
				drawn, ok := draw(rows, 2*len(source)+tableSlack)
				if !ok {
					drawn = source
				}
				out.WriteString(drawn)
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
// (GitHub Flavored Markdown, "Tables"). The row of dashes is left out. A row may
// have fewer cells than there are columns.
func table(lines []string) (rows [][]string, n int) {
	head, dashes := cells(lines[0], false), cells(lines[1], false)
	if len(head) < 2 && !strings.HasPrefix(strings.TrimSpace(lines[0]), "|") || len(head) != len(dashes) {
		return nil, 0
	}
	for _, d := range dashes {
		if d = strings.Trim(d, ":"); d == "" || strings.Trim(d, "-") != "" {
			return nil, 0
		}
	}
	rows, n = [][]string{head}, 2
	for ; n < len(lines) && strings.Contains(lines[n], "|"); n++ {
		rows = append(rows, row(lines[n], len(head)))
	}
	if len(rows) == 1 {
		return nil, 0
	}
	return rows, n
}

// row takes a line apart for so many columns. A bar in code is a border, unless
// there are too many of them; what is too much then stays in the last cell. The
// rules of GitHub would drop it, and people would not read what was said.
func row(line string, columns int) []string {
	out := cells(line, false)
	if len(out) > columns {
		out = cells(line, true)
	}
	if len(out) > columns {
		last := slices.DeleteFunc(out[columns-1:], func(c string) bool { return c == "" })
		out = append(out[:columns-1], strings.Join(last, " | "))
	}
	return out
}

// cells takes a line apart; \| is no border, and in code no bar is if code is
// to stay whole.
func cells(line string, wholeCode bool) []string {
	line = strings.TrimSpace(line)
	if !strings.Contains(line, "|") {
		return nil
	}
	line = strings.TrimPrefix(line, "|")
	var out []string
	var cell strings.Builder
	for i := 0; i < len(line); {
		n := 1
		switch {
		case line[i] == '\\' && i+1 < len(line):
			n = 2
			cell.WriteString(strings.Replace(line[i:i+n], "\\|", "|", 1))
		case line[i] == '`' && wholeCode:
			n = codeSpan(line[i:])
			cell.WriteString(strings.ReplaceAll(line[i:i+n], "\\|", "|"))
		case line[i] == '|':
			out = append(out, strings.TrimSpace(cell.String()))
			cell.Reset()
		default:
			cell.WriteByte(line[i])
		}
		i += n
	}
	if rest := strings.TrimSpace(cell.String()); rest != "" || !strings.HasSuffix(line, "|") {
		out = append(out, rest)
	}
	return out
}

// codeSpan is the length of the code that a text of backticks begins with, or
// of these if they open none.
func codeSpan(text string) int {
	ticks := func(at int) int { return len(text[at:]) - len(strings.TrimLeft(text[at:], "`")) }
	opening := ticks(0)
	for at := opening; ; {
		next := strings.IndexByte(text[at:], '`')
		if next < 0 {
			return opening
		}
		closing := ticks(at + next)
		if at += next + closing; closing == opening {
			return at
		}
	}
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

// draw returns false if the drawing would have more than so many bytes.
func draw(rows [][]string, most int) (drawn string, ok bool) {
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
	if total > maxTable || !plain {
		return list(rows, most)
	}
	var out strings.Builder
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
		if out.Len() > most {
			return "", false
		}
	}
	out.WriteString("```\n")
	return out.String(), true
}

// list returns false if the list would have more than so many bytes.
func list(rows [][]string, most int) (text string, ok bool) {
	var out strings.Builder
	for _, row := range rows[1:] {
		for i, head := range rows[0] {
			bullet, c := "  - ", ""
			if i == 0 {
				bullet = "- "
			}
			if i < len(row) {
				c = row[i]
			}
			out.WriteString(bullet + "**" + head + "**: " + c + "\n")
		}
		if out.Len() > most {
			return "", false
		}
	}
	return out.String(), true
}
