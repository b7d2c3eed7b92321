package markdown

import (
	"strings"

	extast "github.com/yuin/goldmark/extension/ast"
)

// minColumn is the smallest width to which a column shrinks, in cells.
const minColumn = 4

// table renders a table. Columns shrink, the widest first, until the table fits; the
// text of their cells then wraps. A table with too many columns for the width becomes
// one line for each cell.
func (r *renderer) table(n *extast.Table, width int) (out []line) {
	var rows [][]line
	for row := n.FirstChild(); row != nil; row = row.NextSibling() {
		style := r.styles.Text
		if _, is := row.(*extast.TableHeader); is {
			style = style.Bold(true)
		}
		var cells []line
		for cell := row.FirstChild(); cell != nil; cell = cell.NextSibling() {
			var joined line
			for _, l := range r.inline(cell, style) {
				joined = append(joined, l...)
			}
			cells = append(cells, joined)
		}
		rows = append(rows, cells)
	}
	if len(rows) == 0 || len(rows[0]) == 0 {
		return nil
	}
	columns := len(rows[0])
	room := width - 3*(columns-1)
	if room < columns*minColumn {
		return r.stacked(rows, width)
	}
	widths := columnWidths(rows, columns, room)
	for i, row := range rows {
		out = append(out, r.row(row, widths, n.Alignments)...)
		if i == 0 {
			parts := make([]string, columns)
			for c, w := range widths {
				parts[c] = strings.Repeat("─", w)
			}
			out = append(out, line{{strings.Join(parts, "─┼─"), r.styles.Faint}})
		}
	}
	return out
}

// columnWidths returns widths whose sum is at most room.
func columnWidths(rows [][]line, columns, room int) []int {
	widths := make([]int, columns)
	total := 0
	for c := range widths {
		widths[c] = 1
		for _, row := range rows {
			if c < len(row) {
				widths[c] = max(widths[c], row[c].width())
			}
		}
		total += widths[c]
	}
	for total > room {
		widest := 0
		for c, w := range widths {
			if w > widths[widest] {
				widest = c
			}
		}
		step := max(1, min(total-room, widths[widest]/8))
		widths[widest], total = widths[widest]-step, total-step
	}
	return widths
}

// row renders one row, whose cells may wrap.
func (r *renderer) row(row []line, widths []int, alignments []extast.Alignment) (out []line) {
	cells, height := make([][]line, len(widths)), 1
	for c, w := range widths {
		if c < len(row) {
			cells[c] = wrap(row[c], w)
			height = max(height, len(cells[c]))
		}
	}
	for i := range height {
		var l line
		for c, w := range widths {
			var content line
			if i < len(cells[c]) {
				content = cells[c][i]
			}
			before, after := 0, w-content.width()
			if c < len(alignments) {
				switch alignments[c] {
				case extast.AlignRight:
					before, after = after, 0
				case extast.AlignCenter:
					before, after = after/2, after-after/2
				}
			}
			if c > 0 {
				l = append(l, span{" │ ", r.styles.Faint})
			}
			if c == len(widths)-1 {
				after = 0
			}
			l = append(append(append(l, span{strings.Repeat(" ", max(before, 0)), r.styles.Text}), content...), span{strings.Repeat(" ", max(after, 0)), r.styles.Text})
		}
		out = append(out, l)
	}
	return out
}

// stacked renders each row as lines "header: cell".
func (r *renderer) stacked(rows [][]line, width int) (out []line) {
	for i, row := range rows[1:] {
		if i > 0 {
			out = append(out, nil)
		}
		for c, cell := range row {
			var l line
			if c < len(rows[0]) {
				l = append(append(l, rows[0][c]...), span{": ", r.styles.Faint})
			}
			out = append(out, wrap(append(l, cell...), width)...)
		}
	}
	return out
}
