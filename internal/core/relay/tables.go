package relay

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
)

const (
	// maxTable is the widest table that is drawn, in characters. A wider one would
	// wrap, so it becomes a list.
	maxTable = 100
	// tableSlack is how many bytes a drawing may have beyond twice its source: a
	// list repeats the headers, which in a small table are longer than the cells.
	tableSlack = 1000
)

// readable replaces Markdown tables, which chat platforms do not render, with
// drawings in code blocks, or with lists if they are too wide or contain links,
// which do not work in code. A table without rows, and one that would become much
// longer, stays as it is. So does code.
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

// table parses the table that the lines begin with and returns its number of
// lines, or 0 if they begin with none (GitHub Flavored Markdown, "Tables"). The
// result lacks the delimiter row. A row may have fewer cells than columns.
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

// row splits a line into cells. A bar in code is a border unless that makes too
// many cells. Surplus cells are added to the last one: GitHub drops them, but
// people should see the whole answer.
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

// cells splits a line at its bars, except at \| and, if code is to stay whole,
// inside code.
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

// codeSpan returns the length of the code span at the start of a text that begins
// with backticks, or that of the backticks if they open none.
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

// alive matches text that must not be in a code block: its end, links, mentions.
var alive = regexp.MustCompile("```|://|\\]\\(|<[@#]")

// width returns the columns that a text occupies in a monospaced font, where East
// Asian characters and emoji occupy two.
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

// draw draws a table. It returns false if the drawing is longer than most bytes.
func draw(rows [][]string, most int) (drawn string, ok bool) {
	widths, total := make([]int, len(rows[0])), 0
	plain := true // no cell contains text that must not be in a code block
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

// list renders a table as a list. It returns false if that is longer than most
// bytes.
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
