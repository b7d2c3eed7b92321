package builtin

import (
	"fmt"
	"strings"

	"lilac/internal/agent/tool"
)

// How much of a change is shown.
const (
	diffContext = 2   // lines around a change
	diffHunks   = 5   // changes
	diffSide    = 20  // lines of one side of a change
	diffLine    = 200 // runes of a line
)

// diff shows what a replacement did: for each group of lines that changed, the
// old ones and the new ones with a little of what is around them.
func diff(old string, at []int, length int, to string) string {
	var b strings.Builder
	shift := 0
	for hunk, i := 0, 0; i < len(at); hunk++ {
		start := lineStart(old, at[i])
		last := i
		end := lineEnd(old, at[i]+length)
		for last+1 < len(at) && at[last+1] <= end {
			last++
			end = lineEnd(old, at[last]+length)
		}
		if hunk == diffHunks {
			fmt.Fprintf(&b, "[… %d more replacements]\n", len(at)-i)
			break
		}
		local := make([]int, 0, last-i+1)
		for _, offset := range at[i : last+1] {
			local = append(local, offset-start)
		}
		before := old[start:end]
		after := splice(before, local, length, to)
		line := lineOf(old, start)
		fmt.Fprintf(&b, "@@ line %d @@\n", line+shift)
		writeLines(&b, " ", around(old[:start], -diffContext))
		writeLines(&b, "-", splitLines(before))
		writeLines(&b, "+", splitLines(after))
		writeLines(&b, " ", around(old[end:], diffContext))
		shift += strings.Count(after, "\n") - strings.Count(before, "\n")
		i = last + 1
	}
	return b.String()
}

func lineStart(s string, offset int) int { return strings.LastIndexByte(s[:offset], '\n') + 1 }

// lineEnd returns where the line ends in which the text before offset ends,
// its line end included.
func lineEnd(s string, offset int) int {
	if offset > 0 && s[offset-1] == '\n' {
		return offset
	}
	if i := strings.IndexByte(s[offset:], '\n'); i >= 0 {
		return offset + i + 1
	}
	return len(s)
}

func splitLines(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(s, "\n"), "\n")
}

// around returns the first n lines of s, or the last ones when n is negative.
func around(s string, n int) []string {
	if n < 0 {
		start := len(s)
		for range -n {
			if start > 0 {
				start = strings.LastIndexByte(s[:start-1], '\n') + 1
			}
		}
		return splitLines(s[start:])
	}
	end := 0
	for range n {
		if i := strings.IndexByte(s[end:], '\n'); i >= 0 {
			end += i + 1
		} else {
			end = len(s)
		}
	}
	return splitLines(s[:end])
}

func writeLines(b *strings.Builder, mark string, lines []string) {
	for i, line := range lines {
		if i == diffSide {
			fmt.Fprintf(b, "%s[… %d more lines]\n", mark, len(lines)-i)
			return
		}
		line = strings.TrimSuffix(line, "\r")
		if runes := []rune(line); len(runes) > diffLine {
			line = string(runes[:diffLine]) + "…"
		}
		b.WriteString(mark + tool.Visible(line) + "\n")
	}
}
