package order_test

import (
	"cmp"
	"maps"
	"reflect"
	"testing"

	"lilac/internal/foundation/order"
)

type word struct {
	text string
	at   int
}

func byText(a, b word) int { return cmp.Compare(a.text, b.text) }

func TestEqualElementsKeepTheirOrder(t *testing.T) {
	got := []word{{"b", 1}, {"a", 2}, {"b", 3}, {"a", 4}, {"c", 5}}
	order.By(got, byText)
	if want := []word{{"a", 2}, {"a", 4}, {"b", 1}, {"b", 3}, {"c", 5}}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestSortedCollects(t *testing.T) {
	got := order.Sorted(maps.Keys(map[word]bool{{"b", 1}: true, {"a", 2}: true}), byText)
	if want := []word{{"a", 2}, {"b", 1}}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := order.Sorted(maps.Keys(map[word]bool{}), byText); got != nil {
		t.Errorf("got %v for nothing, want nil", got)
	}
}
