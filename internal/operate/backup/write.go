package backup

import (
	"archive/tar"
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
	"syscall"
	"time"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/osfile"
)

const (
	manifestName = "manifest.json"
	blobsDir     = "blobs"
	// formatVersion is the version of the archive format.
	formatVersion = 1
	// maxManifest bounds the size of a manifest in bytes, because it is read into memory. A stored
	// file needs about 180 bytes, so this is enough for about 3 million of them.
	maxManifest = 512 << 20
)

// A Manifest is the last entry of a backup.
type Manifest struct {
	Format  int       `json:"format"`
	Version string    `json:"version"` // of the program
	Made    time.Time `json:"made"`
	StoreID string    `json:"storeId"`
	Entries []Entry   `json:"entries"`
	// Unread lists the directories of stored files that could not be listed. The backup may miss
	// some or all of their files.
	Unread []string `json:"unread,omitempty"`
}

// An Entry is one file of a backup.
type Entry struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Damaged returns the names of stored files whose content does not match their SHA-256, which is
// their name. The backup contains them unchanged.
func (m Manifest) Damaged() (names []string) {
	for _, e := range m.Entries {
		if base := path.Base(e.Name); e.Name != db.FileName && base != e.SHA256 {
			names = append(names, base)
		}
	}
	return names
}

// Bytes returns the total size of the entries.
func (m Manifest) Bytes() (n int64) {
	for _, e := range m.Entries {
		n += e.Size
	}
	return n
}

// Write backs up a data directory to a new file, and then verifies that file. Damaged stored files
// and unreadable directories of stored files do not make it fail; see [Manifest.Damaged] and
// [Manifest.Unread]. Besides the file, it needs space for a copy of the database.
func Write(ctx context.Context, dataDir, file, version string, now time.Time) (m Manifest, err error) {
	out, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return m, fault.New(fault.Conflict, "%s exists already and is not overwritten. Choose another name.", file)
	}
	if err != nil {
		return m, fault.Wrap(fault.Invalid, err, "%s cannot be written", file)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(file))
		}
		if osfile.IsFull(err) {
			err = noRoom(err, dataDir, filepath.Dir(file))
		}
	}()
	m, err = write(ctx, out, dataDir, filepath.Dir(file), version, now)
	if err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return m, err
	}
	if _, err := Verify(ctx, file); err != nil {
		return m, fmt.Errorf("read the backup again: %w", err)
	}
	return m, osfile.SyncDir(filepath.Dir(file))
}

func write(ctx context.Context, out io.Writer, dataDir, beside, version string, now time.Time) (m Manifest, err error) {
	removeLeft(beside)
	temp, err := os.MkdirTemp(beside, tempPrefix)
	if err != nil {
		return m, fmt.Errorf("make room for a copy: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	lock, err := osfile.LockDir(temp) // so that no other backup takes it for one that was killed
	if err != nil {
		return m, fmt.Errorf("lock %s for this backup: %w", temp, err)
	}
	defer lock.Close()
	copied := filepath.Join(temp, db.FileName)
	m = Manifest{Format: formatVersion, Version: version, Made: now.UTC()}
	if m.StoreID, err = db.Snapshot(ctx, dataDir, copied); err != nil {
		return m, err
	}
	zip, err := gzip.NewWriterLevel(out, gzip.BestSpeed)
	if err != nil {
		return m, fmt.Errorf("compress: %w", err)
	}
	a := &archive{w: tar.NewWriter(zip), m: &m}
	if err := a.add(copied, db.FileName); err != nil {
		return m, err
	}
	if err := a.addBlobs(ctx, filepath.Join(dataDir, blobsDir), os.DirFS(filepath.Join(dataDir, blobsDir))); err != nil {
		return m, err
	}
	data, err := json.Marshal(m)
	if err != nil {
		return m, fmt.Errorf("encode manifest: %w", err)
	}
	if len(data) > maxManifest {
		return m, fault.New(fault.Invalid, "The %d stored files are more than a backup can list. Delete some, or copy the data directory while Lilac is stopped.", len(m.Entries))
	}
	if err := a.header(manifestName, int64(len(data))); err != nil {
		return m, err
	}
	if _, err := a.w.Write(data); err != nil {
		return m, fmt.Errorf("write manifest: %w", err)
	}
	if err := errors.Join(a.w.Close(), zip.Close()); err != nil {
		return m, fmt.Errorf("finish backup: %w", err)
	}
	return m, nil
}

type archive struct {
	w *tar.Writer
	m *Manifest
}

func (a *archive) header(name string, size int64) error {
	err := a.w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o600, ModTime: a.m.Made})
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// add writes a file to the archive and to the manifest.
func (a *archive) add(file, name string) error {
	f, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("open %s: %w", name, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("look at %s: %w", name, err)
	}
	return a.copy(name, f, info.Size())
}

func (a *archive) copy(name string, r io.Reader, size int64) error {
	if err := a.header(name, size); err != nil {
		return err
	}
	sum := sha256.New()
	if _, err := io.Copy(io.MultiWriter(a.w, sum), io.LimitReader(r, size)); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	a.m.Entries = append(a.m.Entries, Entry{Name: name, Size: size, SHA256: hex.EncodeToString(sum.Sum(nil))})
	return nil
}

// addBlob adds a stored file like add, but tolerates read errors, so that one bad file does not
// cost the others. Unreadable parts become zeros, and a file that cannot be opened becomes empty;
// its name, the SHA-256, then reveals the damage. A file that no longer exists was deleted as
// unused and is skipped.
func (a *archive) addBlob(file, name string) error {
	f, err := os.Open(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case notGiven(err):
		return a.copy(name, strings.NewReader(""), 0)
	case err != nil:
		return fmt.Errorf("open %s: %w", name, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("look at %s: %w", name, err)
	}
	return a.copy(name, &asFarAsGiven{r: f}, info.Size())
}

// notGiven reports whether an error means that the disk cannot read the data, or that the user may
// not read it.
func notGiven(err error) bool {
	return errors.Is(err, syscall.EIO) || errors.Is(err, syscall.EBADMSG) || errors.Is(err, fs.ErrPermission) || corrupted(err)
}

// asFarAsGiven reads a file up to the first read error, and returns zeros after it.
type asFarAsGiven struct {
	r    io.Reader
	lost bool
}

func (a *asFarAsGiven) Read(p []byte) (int, error) {
	if !a.lost {
		n, err := a.r.Read(p)
		if !notGiven(err) {
			return n, err
		}
		a.lost = true
		if n > 0 {
			return n, nil
		}
	}
	clear(p)
	return len(p), nil
}

// addBlobs adds the complete stored files; a file that is still being written has a temporary
// name. tree is the file system of dir. Directories that cannot be listed are added to
// Manifest.Unread.
func (a *archive) addBlobs(ctx context.Context, dir string, tree fs.FS) error {
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist): // there is none, or it was removed meanwhile
			return nil
		case notGiven(err):
			a.m.Unread = append(a.m.Unread, path.Join(blobsDir, name))
			return nil
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case !d.Type().IsRegular() || !isBlob(d.Name()):
			return nil
		}
		return a.addBlob(filepath.Join(dir, filepath.FromSlash(name)), blobsDir+"/"+d.Name()[:2]+"/"+d.Name())
	})
	if err != nil {
		return fmt.Errorf("add stored files: %w", err)
	}
	return nil
}

// isBlob reports whether a file name is that of a stored file: a SHA-256.
func isBlob(name string) bool {
	raw, err := hex.DecodeString(name)
	return err == nil && len(raw) == sha256.Size && name == hex.EncodeToString(raw)
}
