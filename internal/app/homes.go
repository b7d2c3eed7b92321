package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/osfile"
)

const (
	// legacyDir keeps the settings that commands had when all sessions shared a home.
	legacyDir = ".before"
	// sinceFile contains the time from which on sessions have homes of their own. It is
	// written last, so a migration that was interrupted begins again.
	sinceFile = ".since"
	// partialPrefix begins the names of directories that are not complete.
	partialPrefix = ".partial-"
	// maxLegacyFile and maxLegacy bound the settings that are kept, in bytes.
	maxLegacyFile = 1 << 20
	maxLegacy     = 16 << 20
)

// legacyDirs are the directories of settings in a home. Caches are not worth a copy.
var legacyDirs = []string{".config", ".ssh", ".gnupg"}

// homes gives each session a home directory of its own, so that a setting that a command makes
// in one session, such as an alias of git, never runs in another.
//
// Before, the workspace was the home of all sessions. Its settings are copied once, at the
// first start, before any command runs. Each session from that time begins with the copy; new
// sessions begin with an empty home. The originals stay where they are.
type homes struct {
	sessionDirs
	since time.Time
	// before reports whether a session was created before a time.
	before func(sessionID string, t time.Time) (bool, error)
}

// openHomes opens the homes in a directory, and keeps the settings of the former common
// home if that has not happened yet.
func openHomes(dir, workspace string, before func(string, time.Time) (bool, error)) (*homes, error) {
	h := &homes{sessionDirs: sessionDirs{dir}, before: before}
	if err := h.open(workspace); err != nil {
		return nil, fmt.Errorf("open home directories: %w", err)
	}
	return h, nil
}

func (h *homes) open(workspace string) error {
	if err := osfile.MkdirAll(h.dir, 0o700); err != nil {
		return err
	}
	if err := h.removePartial(); err != nil {
		return err
	}
	note := filepath.Join(h.dir, sinceFile)
	text, err := os.ReadFile(note)
	if errors.Is(err, fs.ErrNotExist) {
		return h.migrate(workspace, note)
	}
	if err != nil {
		return err
	}
	ms, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return fmt.Errorf("read %s: %w", note, err)
	}
	h.since = time.UnixMilli(ms)
	return nil
}

// migrate keeps the settings of the common home.
func (h *homes) migrate(workspace, note string) error {
	legacy := filepath.Join(h.dir, legacyDir)
	if err := os.RemoveAll(legacy); err != nil { // of a migration that was interrupted
		return err
	}
	partial, err := os.MkdirTemp(h.dir, partialPrefix)
	if err != nil {
		return err
	}
	if err := keepSettings(workspace, partial); err != nil {
		return err
	}
	if err := os.Rename(partial, legacy); err != nil {
		return err
	}
	h.since = time.Now()
	return osfile.Replace(note, []byte(strconv.FormatInt(h.since.UnixMilli(), 10)+"\n"), 0o600)
}

// removePartial removes what a killed process left behind.
func (h *homes) removePartial() error {
	left, err := filepath.Glob(filepath.Join(h.dir, partialPrefix+"*"))
	for _, path := range left {
		err = errors.Join(err, os.RemoveAll(path))
	}
	return err
}

// of returns the home of a session, and creates it for its first command.
func (h *homes) of(sessionID string) (string, error) {
	home := h.path(sessionID)
	if _, err := os.Lstat(home); err == nil {
		return home, nil
	}
	if err := h.create(sessionID, home); err != nil {
		return "", fault.Wrap(fault.Unavailable, err, "The home directory of the session cannot be created.")
	}
	return home, nil
}

// ofServer returns the home of an MCP server, and creates it for the first start.
func (h *homes) ofServer(name string) (string, error) {
	home := filepath.Join(h.dir, "m-"+name)
	if err := osfile.MkdirAll(home, 0o700); err != nil {
		return "", fault.Wrap(fault.Unavailable, err, "The home directory of the MCP server %s cannot be created.", name)
	}
	return home, nil
}

func (h *homes) create(sessionID, home string) error {
	partial, err := os.MkdirTemp(h.dir, partialPrefix)
	if err != nil {
		return err
	}
	defer os.RemoveAll(partial) // gone after the rename
	existed, err := h.before(sessionID, h.since)
	if err != nil {
		return err
	}
	if existed {
		if err := os.CopyFS(partial, os.DirFS(filepath.Join(h.dir, legacyDir))); err != nil {
			return err
		}
	}
	err = os.Rename(partial, home)
	if _, there := os.Lstat(home); there == nil {
		return nil // another command of the session may have been faster
	}
	return err
}

// keepSettings copies the settings in a home: hidden files, and directories of settings. It
// follows no links, and leaves out what is too large.
func keepSettings(home, to string) error {
	root, err := os.OpenRoot(home)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return err
	}
	room := int64(maxLegacy)
	for _, e := range entries {
		isSetting := strings.HasPrefix(e.Name(), ".") && e.Type().IsRegular()
		for _, dir := range legacyDirs {
			isSetting = isSetting || e.IsDir() && e.Name() == dir
		}
		if !isSetting {
			continue
		}
		err := fs.WalkDir(root.FS(), e.Name(), func(name string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() {
				return osfile.MkdirAll(filepath.Join(to, filepath.FromSlash(name)), 0o700)
			}
			info, err := d.Info()
			if err != nil || !info.Mode().IsRegular() || info.Size() > min(maxLegacyFile, room) {
				return err
			}
			room -= info.Size()
			return copySetting(root, name, filepath.Join(to, filepath.FromSlash(path.Clean(name))), info.Mode().Perm())
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func copySetting(root *os.Root, name, to string, mode fs.FileMode) error {
	in, err := root.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode|0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, io.LimitReader(in, maxLegacyFile))
	return errors.Join(err, out.Close())
}

// sessionBefore reports whether a session was created before a time.
func (b *base) sessionBefore(sessionID string, t time.Time) (before bool, err error) {
	err = b.db.Read(context.Background(), func(q db.Queryer) error {
		s, err := b.store.Sessions.Session(q, sessionID)
		before = err == nil && s.CreatedAt < t.UnixMilli()
		if fault.KindOf(err) == fault.NotFound {
			return nil
		}
		return err
	})
	return before, err
}
