package memory

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/osfile"
)

// record keeps a change, and removes the oldest ones.
func record(root *os.Root, c Change) error {
	if err := osfile.MkdirAllIn(root, historyDir, 0o700); err != nil {
		return fmt.Errorf("record a change of the memory: %w", err)
	}
	data, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("encode a change of the memory: %w", err)
	}
	if err := replace(root, path.Join(historyDir, c.ID+".json"), data); err != nil {
		return err
	}
	all, err := changes(root)
	if err != nil {
		return err
	}
	for len(all) > maxChanges {
		if err := root.Remove(path.Join(historyDir, all[0])); err != nil {
			return fmt.Errorf("remove an old change of the memory: %w", err)
		}
		all = all[1:]
	}
	return nil
}

// changes lists the files of the changes, the oldest first.
func changes(root *os.Root) (out []string, err error) {
	if root == nil {
		return nil, nil
	}
	dir, err := root.Open(historyDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the changes of the memory: %w", err)
	}
	defer func() { _ = dir.Close() }()
	list, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list the changes of the memory: %w", err)
	}
	for _, name := range list {
		if strings.HasSuffix(name, ".json") {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out, nil
}

// Changes lists the newest changes, the newest first.
func (s *Store) Changes(limit int) (out []Change, err error) {
	root, err := s.open()
	if err != nil || root == nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	all, err := changes(root)
	if err != nil {
		return nil, err
	}
	slices.Reverse(all)
	for _, file := range all[:min(len(all), limit)] {
		c, err := readChange(root, file)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

func readChange(root *os.Root, file string) (c Change, err error) {
	data, err := root.ReadFile(path.Join(historyDir, file))
	if err != nil {
		return c, fmt.Errorf("read a change of the memory: %w", err)
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return c, fault.Wrap(fault.Internal, err, "The change %s of the memory is damaged.", strings.TrimSuffix(file, ".json"))
	}
	return c, nil
}

// Undo brings a note back to its text before a change. If the note was changed since, it is a
// fault.Conflict.
func (s *Store) Undo(id string) (Change, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	root, err := s.open()
	if err != nil {
		return Change{}, err
	}
	if root == nil || strings.ContainsAny(id, `/\`) {
		return Change{}, unknownChange(id)
	}
	defer func() { _ = root.Close() }()
	c, err := readChange(root, id+".json")
	if errors.Is(err, fs.ErrNotExist) {
		return Change{}, unknownChange(id)
	}
	if err != nil {
		return Change{}, err
	}
	now, ok, err := read(root, c.Place(), c.Name)
	if err != nil {
		return Change{}, err
	}
	if ok != (c.After != nil) || ok && now != *c.After {
		return Change{}, fault.New(fault.Conflict, "The note %s was changed since. Undo the newer changes first, or edit %s.md.", c.Name, path.Join(s.Dir, c.Place().dir(), c.Name))
	}
	undone := Change{ID: s.NewID(), At: s.Now().UnixMilli(), Kind: c.Kind, PlaceID: c.PlaceID, Name: c.Name, Before: c.After, After: c.Before}
	if err := record(root, undone); err != nil {
		return Change{}, err
	}
	return undone, apply(root, c.Place(), c.Name, c.Before)
}

func unknownChange(id string) error {
	return fault.New(fault.NotFound, "There is no change %q of the memory. The last %d are kept.", id, maxChanges)
}
