package skills

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/osfile"
)

// Trust is the file in which the operator's trust is kept: the hashes of skills by their
// directories. It is in the data directory, which the agent cannot reach.
type Trust struct{ File string }

func (t Trust) load() (map[string]string, error) {
	out := map[string]string{}
	data, err := os.ReadFile(t.File)
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the trusted skills: %w", err)
	}
	if err := json.Unmarshal(data, &out); err != nil {
		return nil, fault.Wrap(fault.Internal, err, "The file %s is damaged. Remove it, and trust the skills again.", t.File)
	}
	return out, nil
}

// save replaces the file.
func (t Trust) save(trusted map[string]string) error {
	data, err := json.MarshalIndent(trusted, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the trusted skills: %w", err)
	}
	if err := osfile.MkdirAll(filepath.Dir(t.File), 0o700); err != nil {
		return fmt.Errorf("make the directory of the trusted skills: %w", err)
	}
	if err := osfile.Replace(t.File, append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("write the trusted skills: %w", err)
	}
	return nil
}

// SetTrusted trusts skills as they are now, by name, and returns them. Without names, it trusts
// all that wait.
func (l Library) SetTrusted(names ...string) (done []Skill, err error) {
	list, err := l.List()
	if err != nil {
		return nil, err
	}
	trusted, err := l.Trust.load()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if !slices.ContainsFunc(list, func(s Skill) bool { return s.Name == name && s.State != Invalid }) {
			return nil, unknown(name, list)
		}
	}
	for _, s := range list {
		waits := s.State == New || s.State == Changed
		if waits && (len(names) == 0 || slices.Contains(names, s.Name)) {
			trusted[s.Dir] = s.Hash
			s.State = Trusted
			done = append(done, s)
		}
	}
	if len(done) == 0 {
		return nil, nil
	}
	return done, l.Trust.save(prune(trusted, list))
}

// SetUntrusted ends the trust in skills, by name.
func (l Library) SetUntrusted(names ...string) error {
	list, err := l.List()
	if err != nil {
		return err
	}
	trusted, err := l.Trust.load()
	if err != nil {
		return err
	}
	for _, name := range names {
		found := false
		for _, s := range list {
			if s.Name == name {
				found = true
				delete(trusted, s.Dir)
			}
		}
		if !found {
			return unknown(name, list)
		}
	}
	return l.Trust.save(trusted)
}

// prune removes skills whose directories are gone.
func prune(trusted map[string]string, list []Skill) map[string]string {
	out := maps.Clone(trusted)
	maps.DeleteFunc(out, func(dir, _ string) bool {
		_, err := os.Stat(dir)
		return errors.Is(err, fs.ErrNotExist) && !slices.ContainsFunc(list, func(s Skill) bool { return s.Dir == dir })
	})
	return out
}

func unknown(name string, list []Skill) error {
	var names []string
	for _, s := range list {
		names = append(names, s.Name)
	}
	return fault.New(fault.NotFound, "There is no skill %q.%s", name, fault.DidYouMean(name, names))
}
