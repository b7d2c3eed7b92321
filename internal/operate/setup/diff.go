package setup

import "strings"

// A Line is a line of a diff.
type Line struct {
	// Op is " " for a line that stays, "-" for one that goes, "+" for a new one, and "@" for
	// lines that are left out.
	Op   string `json:"op"`
	Text string `json:"text"`
}

const (
	// context is the number of lines around a change that a diff shows.
	context = 3
	// maxCells bounds the table of the comparison. A larger difference is shown as a whole: all
	// old lines, then all new ones.
	maxCells = 4_000_000
)

// Diff compares two texts line by line. It returns nothing if they are equal.
func Diff(before, after string) []Line {
	if before == after {
		return nil
	}
	all := compare(split(before), split(after))
	shown := make([]bool, len(all))
	for i, line := range all {
		if line.Op == " " {
			continue
		}
		for j := max(0, i-context); j <= min(len(all)-1, i+context); j++ {
			shown[j] = true
		}
	}
	var out []Line
	for i, line := range all {
		switch {
		case shown[i]:
			out = append(out, line)
		case i == 0 || shown[i-1]:
			out = append(out, Line{Op: "@"})
		}
	}
	return out
}

func split(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// compare lists the lines of both texts, with those in common once.
func compare(a, b []string) []Line {
	var head, tail []Line
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		head, a, b = append(head, Line{" ", a[0]}), a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		tail = append([]Line{{" ", a[len(a)-1]}}, tail...)
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	common := longest(a, b)
	out := head
	for len(a) > 0 || len(b) > 0 {
		switch {
		case len(a) > 0 && (len(common) == 0 || a[0] != common[0]):
			out, a = append(out, Line{"-", a[0]}), a[1:]
		case len(b) > 0 && (len(common) == 0 || b[0] != common[0]):
			out, b = append(out, Line{"+", b[0]}), b[1:]
		default:
			out, a, b, common = append(out, Line{" ", a[0]}), a[1:], b[1:], common[1:]
		}
	}
	return append(out, tail...)
}

// longest returns the longest common subsequence.
func longest(a, b []string) []string {
	if len(a)*len(b) > maxCells || len(a) == 0 || len(b) == 0 {
		return nil
	}
	length := make([][]int, len(a)+1)
	for i := range length {
		length[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				length[i][j] = length[i+1][j+1] + 1
			} else {
				length[i][j] = max(length[i+1][j], length[i][j+1])
			}
		}
	}
	var out []string
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch {
		case a[i] == b[j]:
			out, i, j = append(out, a[i]), i+1, j+1
		case length[i+1][j] >= length[i][j+1]:
			i++
		default:
			j++
		}
	}
	return out
}
