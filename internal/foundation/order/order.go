// Package order sorts slices by a comparison.
//
// It exists for the size of the program: the compiler makes the code of
// [slices.SortFunc] again for each type of element, 13 KB each time. This package
// has it once. Its functions are pure; a slice must not be used by others meanwhile.
package order

import (
	"iter"
	"slices"
	"sort"
)

// By sorts s in ascending order. compare returns less than 0 if a comes before b.
// Equal elements keep their order.
func By[T any](s []T, compare func(a, b T) int) {
	sort.SliceStable(s, func(i, j int) bool { return compare(s[i], s[j]) < 0 })
}

// Sorted collects the values of seq and sorts them as [By] does. It returns nil if there are none.
func Sorted[T any](seq iter.Seq[T], compare func(a, b T) int) []T {
	s := slices.Collect(seq)
	By(s, compare)
	return s
}
