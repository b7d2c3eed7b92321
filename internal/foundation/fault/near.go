package fault

import (
	"cmp"
	"strings"

	"lilac/internal/foundation/order"
)

// maxNear is the maximum number of suggestions.
const maxNear = 3

// Near returns at most three candidates that are similar to a mistyped word, the most similar
// first. It ignores case.
func Near(word string, candidates []string) []string {
	type near struct {
		word string
		off  int
	}
	var found []near
	for _, c := range candidates {
		low, lowC := strings.ToLower(word), strings.ToLower(c)
		// Words that differ in half of their letters are alike only if they begin alike.
		if off := Distance(low, lowC); off < len(word)/3+2 && off < len(c) && (2*off < len(word) || low[:1] == lowC[:1]) {
			found = append(found, near{c, off})
		}
	}
	order.By(found, func(a, b near) int {
		return cmp.Or(cmp.Compare(a.off, b.off), strings.Compare(a.word, b.word))
	})
	var words []string
	for _, n := range found[:min(len(found), maxNear)] {
		words = append(words, n.word)
	}
	return words
}

// DidYouMean returns a question that suggests the candidates similar to a mistyped word. It
// starts with a space. Without a similar candidate, it is "".
func DidYouMean(word string, candidates []string) string {
	near := Near(word, candidates)
	if len(near) == 0 {
		return ""
	}
	return " Did you mean " + strings.Join(near, " or ") + "?"
}

// Slip returns the candidate that is so similar to a word that the word is almost certainly
// a typing error. It returns "" if there is none, or if the word itself is a candidate.
func Slip(word string, candidates []string) string {
	const most, lettersForOne = 2, 5
	least, found := min(most, len(word)/lettersForOne)+1, ""
	for _, c := range candidates {
		if off := Distance(word, c); off < least {
			least, found = off, c
		}
	}
	if found == word {
		return ""
	}
	return found
}

// Distance returns the edit distance: the number of letters to insert, delete or replace. Letters
// are bytes.
func Distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(diagonal+cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
