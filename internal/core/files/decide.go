package files

import (
	"cmp"
	"slices"
	"time"
)

// Change is what became of a file.
type Change string

// The changes.
const (
	Create Change = "create"
	Write  Change = "write"
	Rename Change = "rename" // it was moved away
	Remove Change = "remove"
)

// Changes are all of them.
var Changes = []Change{Create, Write, Rename, Remove}

// ChangeOf says what became of a file that rests: whether it was known before, is
// there now, and was moved last. A file that came and went is nothing.
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

// Stamp tells one content of a file from another.
type Stamp struct {
	Size int64
	// Modified is in Unix nanoseconds.
	Modified int64
}

// maxDebounces bounds how long a file that never rests is waited for: so many times
// the debounce.
const maxDebounces = 10

// Pending are files that changed and do not rest yet.
type Pending struct {
	// Wait is how long a file has to rest, Limit how many may wait.
	Wait  time.Duration
	Limit int

	items map[string]item
}

type item struct {
	first, due time.Time
	moved      bool
}

// Add notes that a file changed. It reports false when too many wait.
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

// Settled is a file that rests.
type Settled struct {
	Path  string
	Moved bool
}

// Take returns the files that rest, by path, and forgets them.
func (p *Pending) Settled(now time.Time) (out []Settled) {
	for path, it := range p.items {
		if !it.due.After(now) {
			out = append(out, Settled{path, it.moved})
			delete(p.items, path)
		}
	}
	slices.SortFunc(out, func(a, b Settled) int { return cmp.Compare(a.Path, b.Path) })
	return out
}

// Due is when the next file rests, zero if none waits.
func (p *Pending) Due() (due time.Time) {
	for _, it := range p.items {
		if due.IsZero() || it.due.Before(due) {
			due = it.due
		}
	}
	return due
}
