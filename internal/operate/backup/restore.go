package backup

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/osfile"
	"lilac/internal/foundation/text"
)

// damaged returns the error for a file that is not a complete, intact backup.
func damaged(file string, format string, args ...any) error {
	return &fault.Error{Kind: fault.Invalid, Code: "damaged_backup", Message: fmt.Sprintf("%s is not a whole backup: %s. Nothing was restored.", file, fmt.Sprintf(format, args...))}
}

// Verify reads a whole backup and compares it with its manifest.
func Verify(ctx context.Context, file string) (Manifest, error) {
	return read(ctx, file, func(string, io.Reader) error { return nil })
}

// Restore verifies a backup and restores it to a data directory. The directory must be empty or
// must not exist; after an error, it is empty again. The database is restored last, so that a
// server does not start on the directory of an interrupted restore. If root runs Restore, the
// files belong to the owner of the directory, or of the parent in which it is created: usually the
// user that the service runs as.
func Restore(ctx context.Context, file, dataDir string) (m Manifest, err error) {
	if m, err = Verify(ctx, file); err != nil {
		return m, err
	}
	owner, err := ownerOf(dataDir)
	if err != nil {
		return m, err
	}
	if err := emptyDir(dataDir); err != nil {
		return m, err
	}
	root, err := os.OpenRoot(dataDir)
	if err != nil {
		return m, fmt.Errorf("open data directory: %w", err)
	}
	defer root.Close()
	const unfinished = db.FileName + ".restoring"
	made := map[string]bool{} // names directly in the directory
	defer func() {
		if err == nil {
			return
		}
		for name := range made {
			err = errors.Join(err, root.RemoveAll(name))
		}
		if osfile.IsFull(err) {
			err = noRoomToRestore(err, m, dataDir)
		}
	}()
	_, err = read(ctx, file, func(name string, r io.Reader) error {
		if name == db.FileName {
			name = unfinished
		}
		top, _, _ := strings.Cut(name, "/")
		made[top] = true
		return extract(root, name, r)
	})
	if err != nil {
		return m, err
	}
	id, err := db.CheckFile(ctx, filepath.Join(dataDir, unfinished))
	if err != nil {
		return m, err
	}
	if id != m.StoreID {
		return m, damaged(file, "its database is another one than its manifest says")
	}
	if err := owner.give(root); err != nil {
		return m, err
	}
	if err := root.Rename(unfinished, db.FileName); err != nil {
		return m, fmt.Errorf("put database in place: %w", err)
	}
	clear(made) // complete, so keep the files
	return m, osfile.SyncDir(dataDir)
}

// emptyDir creates the directory, or returns an error if it is not empty.
func emptyDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make data directory: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("look at data directory: %w", err)
	}
	if len(entries) > 0 {
		return fault.New(fault.Conflict, "%s is not empty (it holds %s). A backup is restored into an empty directory; choose another --data, or move this one away.", dir, entries[0].Name())
	}
	return os.Chmod(dir, 0o700)
}

func extract(root *os.Root, name string, r io.Reader) error {
	if dir := path.Dir(name); dir != "." {
		if err := root.MkdirAll(filepath.FromSlash(dir), 0o700); err != nil {
			return fmt.Errorf("make %s: %w", dir, err)
		}
	}
	f, err := root.OpenFile(filepath.FromSlash(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("make %s: %w", name, err)
	}
	if _, err := io.Copy(f, r); err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", name, err), f.Close())
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// read reads a backup, passes each file to use, and compares the entries with the manifest.
func read(ctx context.Context, file string, use func(name string, r io.Reader) error) (m Manifest, err error) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return m, fault.New(fault.NotFound, "There is no file %s.", file)
	}
	if err != nil {
		return m, fmt.Errorf("open backup: %w", err)
	}
	defer f.Close()
	packed := bufio.NewReader(f)
	zip, err := gzip.NewReader(packed)
	if err != nil {
		return m, damaged(file, "it does not begin like one (%s)", fault.Plain(err))
	}
	zip.Multistream(false) // otherwise, data in further gzip streams would be skipped
	in := tar.NewReader(zip)
	var seen []Entry
	for {
		if err := ctx.Err(); err != nil {
			return m, err
		}
		head, err := in.Next()
		switch {
		case errors.Is(err, io.EOF):
			return m, damaged(file, "it has no manifest; it was not finished")
		case err != nil:
			return m, damaged(file, "it breaks off after %s (%s)", text.Count(len(seen), "file"), fault.Plain(err))
		case head.Name == manifestName:
			err := finish(file, zip, in, seen, &m)
			if _, more := packed.Peek(1); err == nil && !errors.Is(more, io.EOF) {
				err = damaged(file, "something follows its end")
			}
			return m, err
		case head.Typeflag != tar.TypeReg || !known(head.Name):
			return m, damaged(file, "it holds %q", head.Name)
		}
		sum := sha256.New()
		counted := &counter{r: io.TeeReader(in, sum)}
		if err := use(head.Name, counted); err != nil {
			return m, err
		}
		if _, err := io.Copy(io.Discard, counted); err != nil {
			return m, damaged(file, "%s cannot be read (%s)", head.Name, fault.Plain(err))
		}
		seen = append(seen, Entry{Name: head.Name, Size: counted.n, SHA256: hex.EncodeToString(sum.Sum(nil))})
	}
}

// known reports whether an entry has an expected name. Other names could lead outside the data
// directory.
func known(name string) bool {
	if name == db.FileName {
		return true
	}
	dir, blob, ok := strings.Cut(strings.TrimPrefix(name, blobsDir+"/"), "/")
	return ok && strings.HasPrefix(name, blobsDir+"/") && isBlob(blob) && dir == blob[:2]
}

type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// finish reads the manifest and the rest of the file, and compares the manifest with seen.
func finish(file string, zip *gzip.Reader, in *tar.Reader, seen []Entry, m *Manifest) error {
	data, err := io.ReadAll(io.LimitReader(in, maxManifest))
	if err != nil {
		return damaged(file, "its manifest cannot be read (%s)", fault.Plain(err))
	}
	if more, _ := io.CopyN(io.Discard, in, 1); more > 0 {
		return damaged(file, "its manifest is larger than %d MiB", maxManifest>>20)
	}
	if err := json.Unmarshal(data, m); err != nil {
		return damaged(file, "its manifest is no JSON (%s)", fault.Plain(err))
	}
	if m.Format > formatVersion {
		return fault.New(fault.Conflict, "%s was made by a newer Lilac (%s). Restore it with that one.", file, m.Version)
	}
	if _, err := in.Next(); !errors.Is(err, io.EOF) {
		return damaged(file, "something follows its manifest")
	}
	if _, err := io.Copy(io.Discard, zip); err != nil { // read to the end to verify the checksum
		return damaged(file, "its end is damaged (%s)", fault.Plain(err))
	}
	if len(seen) != len(m.Entries) || len(seen) == 0 || seen[0].Name != db.FileName {
		return damaged(file, "it holds %d files and should hold %d", len(seen), len(m.Entries))
	}
	for i, e := range m.Entries {
		if e != seen[i] {
			return damaged(file, "%s is not what was written", e.Name)
		}
	}
	return nil
}
