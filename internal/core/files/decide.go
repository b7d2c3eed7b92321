package files

import (
	"cmp"
	"time"

	"lilac/internal/foundation/order"
)

// ChangeOf returns the change of a file that is stable: known reports whether it existed
// before, exists whether it exists now, and moved whether it was moved last. A file that
// appeared and disappeared again has no change.
func ChangeOf(known, exists, moved bool) (Change, bool) {
	switch {
	case exists && known:
		return Write, true
	case exists:
		return Create, true
	case known && moved:
		return Rename, true
	case known:
		return Remove, true
	}
	return "", false
}

// maxDebounces bounds the wait for a file that never becomes stable: this many times the
// debounce.
const maxDebounces = 10

// Pending holds the changed files that are not stable yet.
type Pending struct {
	// Wait is the debounce, and Limit the maximum number of files.
	Wait  time.Duration
	Limit int

	items map[string]item
}

type item struct {
	first, due time.Time
	moved      bool
}

// Add adds a file that changed. It returns false if there are too many.
func (p *Pending) Add(path string, moved bool, now time.Time) bool {
	it, waits := p.items[path]
	if !waits {
		if len(p.items) >= p.Limit {
			return false
		}
		it.first = now
	}
	it.moved = moved
	it.due = now.Add(p.Wait)
	if last := it.first.Add(maxDebounces * p.Wait); it.due.After(last) {
		it.due = last
	}
	if p.items == nil {
		p.items = map[string]item{}
	}
	p.items[path] = it
	return true
}

// Settled is a file that is stable.
type Settled struct {
	Path  string
	Moved bool
}

// Settled removes and returns the files that are stable, sorted by path.
func (p *Pending) Settled(now time.Time) (out []Settled) {
	for path, it := range p.items {
		if !it.due.After(now) {
			out = append(out, Settled{path, it.moved})
			delete(p.items, path)
		}
	}
	order.By(out, func(a, b Settled) int { return cmp.Compare(a.Path, b.Path) })
	return out
}

// Due returns when the next file becomes stable, zero if there is none.
func (p *Pending) Due() (due time.Time) {
	for _, it := range p.items {
		if due.IsZero() || it.due.Before(due) {
			due = it.due
		}
	}
	return due
}
