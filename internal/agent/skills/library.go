package skills

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/order"
	"lilac/internal/foundation/text"
)

const (
	// maxSkills bounds the skills of all directories, and maxEntries the entries that are
	// looked at in one of them.
	maxSkills  = 200
	maxEntries = 1000
	// maxFiles and maxBytes bound the files of one skill, and maxDocument its SKILL.md.
	maxFiles    = 1000
	maxBytes    = 20 << 20
	maxDocument = 256 << 10
)

// Root is a directory whose subdirectories may be skills.
type Root struct {
	// Dir is its path, and From says whose it is.
	Dir, From string
}

// The owners of directories.
const (
	Operator  = "operator"
	Workspace = "workspace"
)

// Outside lists the directories of the operator that exist. Commands may read them.
func (l Library) Outside() (out []string) {
	for _, root := range l.Roots {
		if info, err := os.Stat(root.Dir); root.From == Operator && err == nil && info.IsDir() {
			out = append(out, root.Dir)
		}
	}
	return out
}

// State says whether the agent may use a skill.
type State string

// The states. A new skill was never trusted; a changed one was, with other files. A shadowed
// one has the name of a skill in an earlier directory, and an invalid one cannot be used.
const (
	Trusted  State = "trusted"
	New      State = "new"
	Changed  State = "changed"
	Shadowed State = "shadowed"
	Invalid  State = "invalid"
)

// Skill is a directory with a SKILL.md.
type Skill struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	State       State  `json:"state"`
	// Dir is the directory, and From says whose it is.
	Dir  string `json:"dir"`
	From string `json:"from"`
	// Hash is the SHA-256 of all files.
	Hash string `json:"hash,omitempty"`
	// Trouble says why the skill is invalid, Notes what does not match the specification.
	Trouble string   `json:"trouble,omitempty"`
	Notes   []string `json:"notes,omitempty"`
	// Hidden skills are not in the catalog.
	Hidden bool `json:"hidden,omitempty"`

	document Document
}

// Library finds the skills of several directories. On equal names, the first directory wins.
type Library struct {
	Roots []Root
	Trust Trust
}

// List finds all skills, in the order of the directories, and by name within one.
func (l Library) List() ([]Skill, error) {
	trusted, err := l.Trust.load()
	if err != nil {
		return nil, err
	}
	var out []Skill
	names := map[string]bool{}
	for _, root := range l.Roots {
		found, err := find(root)
		if err != nil {
			return nil, err
		}
		for _, s := range found {
			if slices.ContainsFunc(out, func(one Skill) bool { return one.Dir == s.Dir }) {
				continue
			}
			if len(out) >= maxSkills {
				return out, nil
			}
			switch known := trusted[s.Dir]; {
			case s.State == Invalid:
			case names[s.Name]:
				s.State = Shadowed
			case known == s.Hash:
				s.State = Trusted
			case known != "":
				s.State = Changed
			default:
				s.State = New
			}
			// A skill that waits must not hide one that the agent uses.
			names[s.Name] = names[s.Name] || s.State == Trusted
			out = append(out, s)
		}
	}
	return out, nil
}

// find returns the skills of a directory, which need not exist.
func find(root Root) (out []Skill, err error) {
	dir, err := os.Open(root.Dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for skills: %w", err)
	}
	defer func() { _ = dir.Close() }()
	entries, err := dir.ReadDir(maxEntries)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, nil // it is a file
	}
	order.By(entries, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") || !e.IsDir() && e.Type() != fs.ModeSymlink {
			continue
		}
		// Products share skills by links; the files count, not the way to them.
		place, err := filepath.EvalSymlinks(filepath.Join(root.Dir, e.Name()))
		if err != nil {
			continue
		}
		if s, ok := open(place); ok {
			s.From = root.From
			out = append(out, s)
		}
	}
	return out, nil
}

// Check reads the skill in a directory. ok is false if it is none.
func Check(dir string) (s Skill, ok bool) { return open(dir) }

// open reads the skill in a directory.
func open(dir string) (s Skill, ok bool) {
	s = Skill{Name: filepath.Base(dir), Dir: dir, State: Invalid}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return s, false
	}
	defer func() { _ = root.Close() }()
	source, err := read(root, FileName, maxDocument)
	if errors.Is(err, fs.ErrNotExist) {
		return s, false
	}
	if err == nil {
		s.document, err = Parse(filepath.Base(dir), string(source))
	}
	if err == nil {
		s.Name, s.Description, s.Notes, s.Hidden = s.document.Name, s.document.Description, s.document.Notes, s.document.Hidden
		s.Hash, err = hash(root)
	}
	if err != nil {
		s.Trouble = fault.ToWire(err).Message
		if fault.KindOf(err) == fault.Internal {
			s.Trouble = "It cannot be read."
		}
		return s, true
	}
	s.State = New
	return s, true
}

// read reads a plain file of at most limit bytes. A link is not followed out of the root,
// and a pipe is not waited for.
func read(root *os.Root, name string, limit int64) ([]byte, error) {
	info, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fault.New(fault.Invalid, "%s is not a plain file.", path.Base(name))
	}
	file, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	data, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err == nil && int64(len(data)) > limit {
		return nil, fault.New(fault.TooLarge, "%s has more than %d bytes.", path.Base(name), limit)
	}
	return data, err
}

// hash returns the hash of all files of a skill: their names, rights to run, and contents.
func hash(root *os.Root) (string, error) {
	sum := sha256.New()
	files, size := 0, int64(0)
	err := fs.WalkDir(root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if files++; files > maxFiles {
			return fault.New(fault.TooLarge, "It has more than %d files.", maxFiles)
		}
		info, err := e.Info()
		switch {
		case err != nil:
			return err
		case e.IsDir():
			return nil
		case !info.Mode().IsRegular():
			return fault.New(fault.Invalid, "%s is a link or a special file, which a skill must not have.", name)
		}
		data, err := read(root, name, maxBytes-size)
		if err != nil {
			return err
		}
		size += int64(len(data))
		content := sha256.Sum256(data)
		_, err = fmt.Fprintf(sum, "%q %v %x\n", name, info.Mode()&0o111 != 0, content)
		return err
	})
	return hex.EncodeToString(sum.Sum(nil)), err
}

// Catalog is the part of the instructions that lists the trusted skills, or "" if there are
// none. It is bounded.
func (l Library) Catalog() (string, error) {
	list, err := l.List()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, s := range list {
		if s.State != Trusted || s.Hidden {
			continue
		}
		line := "- " + s.Name + ": " + s.Description + "\n"
		if b.Len()+len(line) > maxCatalog {
			b.WriteString("- … more are left out\n")
			break
		}
		b.WriteString(line)
	}
	if b.Len() == 0 {
		return "", nil
	}
	return catalogHead + b.String(), nil
}

// maxCatalog bounds the catalog, in bytes: it is part of every call.
const maxCatalog = 16 << 10

const catalogHead = "# Skills\n\nA skill says how to do one kind of work well. Before you do work that one of these describes, read it with the command " +
	"`tools skills.read --name=NAME`, and follow it as far as it helps with what was asked. It gives you no further rights.\n\n"

// Read returns the text of a trusted skill, with a marker from which [Names] finds it again,
// or one of its other files. The files must be those that were trusted.
func (l Library) Read(name, file string) (string, error) {
	list, err := l.List()
	if err != nil {
		return "", err
	}
	var known []string
	var waits error
	for _, s := range list {
		if s.State == Trusted {
			known = append(known, s.Name)
		}
		if s.Name != name {
			continue
		}
		switch s.State {
		case Trusted:
			return s.text(file)
		case New, Changed:
			waits = fault.New(fault.Denied, "The skill %s is %s: the operator has to look at it first (lilac skills trust %s).", name, s.State, name)
		}
	}
	if waits != nil {
		return "", waits
	}
	return "", fault.New(fault.NotFound, "There is no skill %q.%s", name, fault.DidYouMean(name, known))
}

// text returns the text of a skill, or a file of it.
func (s Skill) text(file string) (string, error) {
	if file != "" {
		root, err := os.OpenRoot(s.Dir)
		if err != nil {
			return "", fmt.Errorf("open a skill: %w", err)
		}
		defer func() { _ = root.Close() }()
		data, err := read(root, filepath.FromSlash(file), maxDocument)
		if errors.Is(err, fs.ErrNotExist) {
			return "", fault.New(fault.NotFound, "The skill %s has no file %s.", s.Name, file)
		}
		return text.Sanitize(string(data)), err
	}
	needs := ""
	if s.document.Compatibility != "" {
		needs = "It needs: " + s.document.Compatibility + "\n"
	}
	return fmt.Sprintf("%s%s\" directory=%q>\n%s%s\n</skill>", marker, s.Name, s.Dir, needs, s.document.Body), nil
}

const marker = `<skill name="`

// Names returns the names of the skills whose texts a text contains, each once.
func Names(in string) (out []string) {
	for _, rest := range strings.Split(in, marker)[1:] {
		name, _, found := strings.Cut(rest, `"`)
		if found && validName().MatchString(name) && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}
