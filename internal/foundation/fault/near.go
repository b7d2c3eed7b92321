package fault

import (
	"cmp"
	"slices"
	"strings"
)

// maxNear bounds how many near words are told.
const maxNear = 3

// Near returns which of the candidates a mistyped word may have meant, the
// nearest first, at most three. Case does not matter.
func Near(word string, candidates []string) []string {
	type near struct {
		word string
		off  int
	}
	var found []near
	for _, c := range candidates {
		if off := distance(strings.ToLower(word), strings.ToLower(c)); off < len(word)/3+2 && off < len(c) {
			found = append(found, near{c, off})
		}
	}
	slices.SortFunc(found, func(a, b near) int {
		return cmp.Or(cmp.Compare(a.off, b.off), strings.Compare(a.word, b.word))
	})
	var words []string
	for _, n := range found[:min(len(found), maxNear)] {
		words = append(words, n.word)
	}
	return words
}

// DidYouMean asks, after a space, whether one of the candidates near to a mistyped
// word was meant. It returns "" if none is near.
func DidYouMean(word string, candidates []string) string {
	near := Near(word, candidates)
	if len(near) == 0 {
		return ""
	}
	return " Did you mean " + strings.Join(near, " or ") + "?"
}

// Slip returns the candidate from which a word differs in so few letters that it is
// hardly another word; empty if there is none, or the word is one of them.
func Slip(word string, candidates []string) string {
	const most, lettersForOne = 2, 5
	least, found := min(most, len(word)/lettersForOne)+1, ""
	for _, c := range candidates {
		if off := distance(word, c); off < least {
			least, found = off, c
		}
	}
	if found == word {
		return ""
	}
	return found
}

// distance is the number of letters to add, drop or change.
func distance(a, b string) int {
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
