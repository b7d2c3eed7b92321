package memory

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/lazyregexp"
	"lilac/internal/foundation/order"
	"lilac/internal/foundation/osfile"
	"lilac/internal/foundation/text"
)

const (
	// MaxText bounds a note, in bytes.
	MaxText = 16 << 10
	// maxNotes bounds the notes of a place, and maxPlaces the places of a kind.
	maxNotes  = 200
	maxPlaces = 20_000
	// maxName bounds a name, and maxSummary the summary in an index, in bytes.
	maxName    = 64
	maxSummary = 160
	// maxIndex bounds the index of a place, in bytes: it is part of every call.
	maxIndex = 6 << 10
	// maxChanges bounds the changes that are kept.
	maxChanges = 1000
)

// Note is a note without its text.
type Note struct {
	Place   string `json:"place"`
	Name    string `json:"name"`
	Summary string `json:"summary"`
}

// Change is a change of a note that can be undone.
type Change struct {
	ID        string `json:"id"`
	At        int64  `json:"at"`
	RequestID string `json:"requestId,omitempty"`
	SessionID string `json:"sessionId,omitempty"`
	Kind      Kind   `json:"kind"`
	PlaceID   string `json:"placeId,omitempty"`
	Name      string `json:"name"`
	// Before and After are the texts; nil means that there was, or is, no note.
	Before *string `json:"before"`
	After  *string `json:"after"`
}

// Place returns the place of the change.
func (c Change) Place() Place { return Place{c.Kind, c.PlaceID} }

// Author says for whom a change is made.
type Author struct{ RequestID, SessionID string }

// Store keeps the notes below a directory, which it creates when it first writes.
type Store struct {
	Dir string
	// NewID returns a new id, in the order of time.
	NewID func() string
	Now   func() time.Time

	mu sync.Mutex
}

var noteName = lazyregexp.New(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// Name makes the name of a note of a text: lowercase letters, digits, and hyphens.
func Name(from string) (string, error) {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(strings.TrimSuffix(from, ".md")))
	name = strings.Join(strings.FieldsFunc(name, func(r rune) bool { return r == '-' }), "-")
	if !noteName().MatchString(name) || len(name) > maxName {
		return "", fault.InvalidField("name", "A name has 1 to %d lowercase letters, digits, and hyphens.", maxName)
	}
	return name, nil
}

// open opens the directory. It is nil if there is none yet.
func (s *Store) open() (*os.Root, error) {
	root, err := os.OpenRoot(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open the memory: %w", err)
	}
	return root, nil
}

// read reads a note; ok is false if there is none.
func read(root *os.Root, p Place, name string) (note string, ok bool, err error) {
	if root == nil {
		return "", false, nil
	}
	file := path.Join(p.dir(), name+".md")
	info, err := root.Lstat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", false, nil
	case err != nil:
		return "", false, fmt.Errorf("read a note: %w", err)
	case !info.Mode().IsRegular():
		return "", false, fault.New(fault.Conflict, "The note %s is not a plain file.", name)
	}
	f, err := root.Open(file)
	if err != nil {
		return "", false, fmt.Errorf("read a note: %w", err)
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, MaxText))
	if err != nil {
		return "", false, fmt.Errorf("read a note: %w", err)
	}
	return text.Sanitize(strings.ToValidUTF8(string(data), "\uFFFD")), true, nil
}

// names lists the notes of a place, by name.
func names(root *os.Root, p Place) (out []string, err error) {
	if root == nil {
		return nil, nil
	}
	dir, err := root.Open(p.dir())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list notes: %w", err)
	}
	defer func() { _ = dir.Close() }()
	entries, err := dir.ReadDir(4 * maxNotes)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("list notes: %w", err)
	}
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".md"); ok && e.Type().IsRegular() && noteName().MatchString(name) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out, nil
}

// List lists the notes of places.
func (s *Store) List(places ...Place) (out []Note, err error) {
	root, err := s.open()
	if err != nil || root == nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	for _, p := range places {
		found, err := names(root, p)
		if err != nil {
			return nil, err
		}
		for _, name := range found[:min(len(found), maxNotes)] {
			note, ok, err := read(root, p, name)
			if err != nil || !ok {
				continue // somebody edits it, or it is no file
			}
			first, _, _ := strings.Cut(strings.TrimSpace(note), "\n")
			out = append(out, Note{p.String(), name, text.TruncateWith(text.SingleLine(strings.TrimLeft(first, "# ")), maxSummary, "…")})
		}
	}
	return out, nil
}

// Empty reports whether nothing was ever remembered.
func (s *Store) Empty() bool {
	_, err := os.Stat(s.Dir)
	return errors.Is(err, fs.ErrNotExist)
}

// Index returns the notes of places as a list for the model.
func (s *Store) Index(places ...Place) (string, error) {
	var b strings.Builder
	for _, p := range places {
		list, err := s.List(p)
		if err != nil {
			return "", err
		}
		size := 0
		for i, n := range list {
			line := "- " + n.Name + ": " + n.Summary + "\n"
			if size += len(line); size > maxIndex {
				fmt.Fprintf(&b, "- … and %d more: tools memory.list\n", len(list)-i)
				break
			}
			b.WriteString(line)
		}
	}
	return b.String(), nil
}

// Recall returns a note of the first of the places that has one with the name.
func (s *Store) Recall(name string, places ...Place) (string, error) {
	name, err := Name(name)
	if err != nil {
		return "", err
	}
	root, err := s.open()
	if err != nil {
		return "", err
	}
	if root != nil {
		defer func() { _ = root.Close() }()
	}
	var known []string
	for _, p := range places {
		note, ok, err := read(root, p, name)
		if err != nil || ok {
			return note, err
		}
		more, err := names(root, p)
		if err != nil {
			return "", err
		}
		known = append(known, more...)
	}
	return "", fault.New(fault.NotFound, "There is no note %q.%s", name, fault.DidYouMean(name, known))
}

// Remember writes a note, instead of an earlier one with the name.
func (s *Store) Remember(by Author, p Place, name, note string) (Change, error) {
	note = strings.TrimSpace(text.Sanitize(note))
	switch {
	case note == "":
		return Change{}, fault.InvalidField("text", "The text is empty. To remove a note, use memory.forget.")
	case len(note) > MaxText-1:
		return Change{}, &fault.Error{Kind: fault.TooLarge, Field: "text", Message: fmt.Sprintf("A note has at most %d bytes. Keep what matters, or divide it.", MaxText-1)}
	}
	note += "\n"
	return s.change(by, p, name, &note)
}

// Forget removes a note.
func (s *Store) Forget(by Author, p Place, name string) (Change, error) {
	return s.change(by, p, name, nil)
}

// change makes a change and records it. The record is written first: a change without a
// record could not be undone.
func (s *Store) change(by Author, p Place, name string, after *string) (Change, error) {
	name, err := Name(name)
	if err != nil {
		return Change{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := osfile.MkdirAll(s.Dir, 0o700); err != nil {
		return Change{}, fmt.Errorf("make the memory: %w", err)
	}
	root, err := s.open()
	if err != nil {
		return Change{}, err
	}
	defer func() { _ = root.Close() }()
	c := Change{ID: s.NewID(), At: s.Now().UnixMilli(), RequestID: by.RequestID, SessionID: by.SessionID, Kind: p.Kind, PlaceID: p.ID, Name: name, After: after}
	before, ok, err := read(root, p, name)
	if err != nil {
		return Change{}, err
	}
	if ok {
		c.Before = &before
	}
	known, err := names(root, p)
	switch {
	case err != nil:
		return Change{}, err
	case !ok && after == nil:
		return Change{}, fault.New(fault.NotFound, "There is no note %q to forget.%s", name, fault.DidYouMean(name, known))
	case !ok && len(known) >= maxNotes:
		return Change{}, fault.New(fault.TooLarge, "There are %d notes, which is the maximum. Combine or forget some.", len(known))
	case !ok && len(known) == 0:
		if err := s.checkPlaces(root, p.Kind); err != nil {
			return Change{}, err
		}
	}
	if err := record(root, c); err != nil {
		return Change{}, err
	}
	return c, apply(root, c.Place(), name, after)
}

func (s *Store) checkPlaces(root *os.Root, kind Kind) error {
	dir, err := root.Open(string(kind))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("count places: %w", err)
	}
	defer func() { _ = dir.Close() }()
	list, err := dir.Readdirnames(maxPlaces)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("count places: %w", err)
	}
	if len(list) >= maxPlaces {
		return fault.New(fault.TooLarge, "The memory has notes of %d %s, which is the maximum. The operator can remove some.", len(list), kind)
	}
	return nil
}

// apply brings a note to a text; nil removes it.
func apply(root *os.Root, p Place, name string, after *string) error {
	file := path.Join(p.dir(), name+".md")
	if after == nil {
		if err := root.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove a note: %w", err)
		}
		return nil
	}
	if err := osfile.MkdirAllIn(root, p.dir(), 0o700); err != nil {
		return fmt.Errorf("make a place of the memory: %w", err)
	}
	return replace(root, file, []byte(*after))
}

// replace writes a file, so that readers see the whole old or new one.
func replace(root *os.Root, file string, data []byte) error {
	if err := osfile.ReplaceIn(root, file, data, 0o600); err != nil {
		return fmt.Errorf("write %s: %w", path.Base(file), err)
	}
	return nil
}

const historyDir = ".history"

// Places lists all places with notes.
func (s *Store) Places() (out []Place, err error) {
	root, err := s.open()
	if err != nil || root == nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	if _, err := root.Stat(string(Everyone)); err == nil {
		out = append(out, Common)
	}
	for _, kind := range []Kind{Person, Channel} {
		dir, err := root.Open(string(kind))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list the places of the memory: %w", err)
		}
		ids, err := dir.Readdirnames(maxPlaces)
		if err = errors.Join(ignoreEnd(err), dir.Close()); err != nil {
			return nil, fmt.Errorf("list the places of the memory: %w", err)
		}
		for _, id := range ids {
			out = append(out, Place{kind, id})
		}
	}
	order.By(out, func(a, b Place) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID)) })
	return out, nil
}

func ignoreEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
