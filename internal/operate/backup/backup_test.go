package backup_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
	"lilac/internal/operate/backup"
	"lilac/internal/store"
	"lilac/internal/testkit/effort"
)

var tables = []db.Migration{{Name: "test.0001", SQL: "CREATE TABLE t (n INTEGER PRIMARY KEY, ref TEXT) STRICT"}}

// data creates a data directory with an open database and stored files.
func data(t testing.TB, dir string) (*db.DB, *store.Blobs) {
	t.Helper()
	d, err := db.Open(context.Background(), db.Options{Dir: dir, Migrations: tables})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	b, err := store.OpenBlobs(store.BlobsDir(dir), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	return d, b
}

func insert(d *db.DB, b *store.Blobs, n int) error {
	ref, err := b.Put(context.Background(), fmt.Appendf(nil, "file %d", n))
	if err != nil {
		return err
	}
	return d.Update(context.Background(), func(tx *db.Tx) error {
		_, err := tx.Exec("INSERT INTO t VALUES (?, ?)", n, ref)
		return err
	})
}

func refs(t testing.TB, d *db.DB) (out []string) {
	t.Helper()
	err := d.Read(context.Background(), func(q db.Queryer) error {
		rows, err := q.Query("SELECT ref FROM t ORDER BY n")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var r string
			if err := rows.Scan(&r); err != nil {
				return err
			}
			out = append(out, r)
		}
		return rows.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestBackupOfADirectoryInUseIsConsistent(t *testing.T) {
	effort.SkipSlow(t)
	dir, temp := filepath.Join(t.TempDir(), "data"), t.TempDir()
	d, b := data(t, dir)
	for n := range 20 {
		if err := insert(d, b, n); err != nil {
			t.Fatal(err)
		}
	}
	stop := make(chan struct{})
	var writing sync.WaitGroup
	writing.Go(func() {
		for n := 20; n < 2000; n++ { // bounded: each backup takes longer than the one before it
			select {
			case <-stop:
				return
			default:
			}
			if err := insert(d, b, n); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for i := range 5 {
		file := filepath.Join(temp, fmt.Sprintf("%d.tar.gz", i))
		m, err := backup.Write(t.Context(), dir, file, "v", time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the file is %v, %v", info.Mode(), err)
		}
		into := filepath.Join(temp, fmt.Sprint(i))
		restored, err := backup.Restore(t.Context(), file, into)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(m, restored); diff != "" {
			t.Error(diff)
		}
		copied, blobs := data(t, into)
		got := refs(t, copied)
		if len(got) < 20 || copied.StoreID() != d.StoreID() {
			t.Errorf("%d rows in the store %s", len(got), copied.StoreID())
		}
		for _, ref := range got {
			if _, err := blobs.Get(t.Context(), ref); err != nil {
				t.Errorf("a file that the database names: %v", err)
			}
		}
		if left, _ := filepath.Glob(filepath.Join(temp, ".lilac-backup-*")); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	}
	close(stop)
	writing.Wait()
}

// A stored file whose content does not match its name is reported as damaged. It does not prevent
// backing up and restoring everything else.
func TestADamagedStoredFileIsNamed(t *testing.T) {
	dir, temp := filepath.Join(t.TempDir(), "data"), t.TempDir()
	d, b := data(t, dir)
	for n := range 3 {
		if err := insert(d, b, n); err != nil {
			t.Fatal(err)
		}
	}
	whole, err := backup.Write(t.Context(), dir, filepath.Join(temp, "whole"), "v", time.Now())
	if bad := whole.Damaged(); err != nil || len(bad) > 0 {
		t.Fatalf("control: %q, %v", bad, err)
	}
	name := strings.TrimPrefix(refs(t, d)[1], store.BlobPrefix)
	if err := os.WriteFile(filepath.Join(dir, "blobs", name[:2], name), []byte("FILE 1"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(temp, "damaged")
	written, err := backup.Write(t.Context(), dir, file, "v", time.Now())
	if got := written.Damaged(); err != nil || !cmp.Equal(got, []string{name}) {
		t.Errorf("written: %q, %v", got, err)
	}
	restored, err := backup.Restore(t.Context(), file, filepath.Join(temp, "into"))
	if got := restored.Damaged(); err != nil || !cmp.Equal(got, []string{name}) {
		t.Errorf("restored: %q, %v", got, err)
	}
	if again, _ := data(t, filepath.Join(temp, "into")); len(refs(t, again)) != 3 {
		t.Error("not all rows are there")
	}
}

// Control: copying the file of an open database loses the commits in its write-ahead log.
func TestControlPlainCopyLosesWhatWasCommitted(t *testing.T) {
	dir, copied := filepath.Join(t.TempDir(), "data"), t.TempDir()
	d, b := data(t, dir)
	if err := insert(d, b, 1); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, db.FileName))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(copied, db.FileName), raw, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := db.Open(t.Context(), db.Options{Dir: copied, Migrations: tables})
	if err != nil {
		return // not even a valid database, so the control holds
	}
	defer c.Close()
	if len(refs(t, c)) != 0 {
		t.Error("a plain copy has everything; the test proves nothing")
	}
}

func made(t *testing.T) (file string) {
	dir := filepath.Join(t.TempDir(), "data")
	d, b := data(t, dir)
	for n := range 3 {
		if err := insert(d, b, n); err != nil {
			t.Fatal(err)
		}
	}
	file = filepath.Join(t.TempDir(), "b.tar.gz")
	if _, err := backup.Write(t.Context(), dir, file, "v", time.Now()); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestDamagedBackupIsRefusedAndNothingIsRestored(t *testing.T) {
	file := made(t)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	bad := map[string][]byte{"empty": {}, "text": []byte("not a backup"), "rewritten": rewrite(t, whole), "two of them": append(bytes.Clone(whole), whole...), "something behind it": append(bytes.Clone(whole), 0)}
	for _, part := range []int{1, 2, 3, 4, 5, 6, 7, 8, 9} {
		bad[fmt.Sprintf("cut at %d tenths", part)] = whole[:len(whole)*part/10]
	}
	bad["cut before its last byte"] = whole[:len(whole)-1]
	for i := 20; i < len(whole); i += max(1, len(whole)/60) {
		flipped := bytes.Clone(whole)
		flipped[i] ^= 0x10
		if bytes.Equal(unzipped(flipped), unzipped(whole)) {
			continue // another encoding of the same data, so nothing is damaged
		}
		bad[fmt.Sprintf("bit of byte %d", i)] = flipped
	}
	for name, data := range bad {
		path := filepath.Join(t.TempDir(), "x")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		into := filepath.Join(t.TempDir(), "data")
		if _, err := backup.Restore(t.Context(), path, into); fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), "not a whole backup") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(into); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: something was restored", name)
		}
	}
	// Control: the undamaged backup is restored.
	if _, err := backup.Restore(t.Context(), file, filepath.Join(t.TempDir(), "data")); err != nil {
		t.Errorf("control: %v", err)
	}
}

// unzipped returns the content of a gzip file, or nil if the file is damaged.
func unzipped(data []byte) []byte {
	zip, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil
	}
	content, err := io.ReadAll(zip)
	if err != nil {
		return nil
	}
	return content
}

// rewrite changes a stored file and recomputes every checksum of gzip and tar, so that only the
// manifest can reveal the change.
func rewrite(t *testing.T, whole []byte) []byte {
	t.Helper()
	zip, err := gzip.NewReader(bytes.NewReader(whole))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	packed := gzip.NewWriter(&out)
	in, to := tar.NewReader(zip), tar.NewWriter(packed)
	for {
		head, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(head.Name, "blobs/") {
			body[0] ^= 1
		}
		if err := to.WriteHeader(head); err != nil {
			t.Fatal(err)
		}
		if _, err := to.Write(body); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(to.Close(), packed.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestNamesInABackupCannotLeadElsewhere(t *testing.T) {
	for _, name := range []string{"../x", "/etc/x", "blobs/../../x", "token", "blobs/ab/short", "blobs/ab/" + strings.Repeat("c", 64), "lilac.lock"} {
		var out bytes.Buffer
		packed := gzip.NewWriter(&out)
		w := tar.NewWriter(packed)
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: 1, Mode: 0o600}); err != nil {
			t.Fatal(err)
		}
		_, _ = w.Write([]byte("x"))
		_ = errors.Join(w.Close(), packed.Close())
		path := filepath.Join(t.TempDir(), "x")
		if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := backup.Verify(t.Context(), path); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNothingIsOverwritten(t *testing.T) {
	file := made(t)
	full := t.TempDir()
	d, _ := data(t, full)
	_ = d
	if _, err := backup.Restore(t.Context(), file, full); fault.KindOf(err) != fault.Conflict {
		t.Errorf("into a directory in use: %v", err)
	}
	if _, err := backup.Write(t.Context(), full, file, "v", time.Now()); fault.KindOf(err) != fault.Conflict {
		t.Errorf("over a file: %v", err)
	}
	if _, err := backup.Verify(t.Context(), file); err != nil {
		t.Errorf("the file that was there: %v", err)
	}
	fresh := filepath.Join(t.TempDir(), "new.tar.gz")
	if _, err := backup.Write(t.Context(), t.TempDir(), fresh, "v", time.Now()); fault.KindOf(err) != fault.NotFound {
		t.Errorf("of an empty directory: %v", err)
	}
	if _, err := os.Stat(fresh); !errors.Is(err, os.ErrNotExist) {
		t.Error("a backup that failed left a file")
	}
}

// If root restores a backup, the service's user must be able to use the result. Control: in a
// directory that belongs to root, the files belong to root.
func TestWhatRootRestoresBelongsToTheOwnerOfThePlace(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give something away")
	}
	file := made(t)
	for _, uid := range []int{0, 61234} {
		for name, dir := range map[string]string{"made": filepath.Join(t.TempDir(), "data"), "empty": t.TempDir()} {
			place := dir
			if name == "made" {
				place = filepath.Dir(dir)
			}
			if err := os.Chown(place, uid, uid); err != nil {
				t.Fatal(err)
			}
			if _, err := backup.Restore(t.Context(), file, dir); err != nil {
				t.Fatal(err)
			}
			seen := 0
			err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
				if err != nil {
					return err
				}
				info, err := entry.Info()
				if err != nil {
					return err
				}
				seen++
				if st := info.Sys().(*syscall.Stat_t); int(st.Uid) != uid || int(st.Gid) != uid || info.Mode().Perm()&0o077 != 0 {
					t.Errorf("%s in a place of %d: %v %d:%d", path, uid, info.Mode(), st.Uid, st.Gid)
				}
				return nil
			})
			if err != nil || seen < 3 {
				t.Errorf("%d files, %v", seen, err)
			}
		}
	}
}

func FuzzDamageIsRefused(f *testing.F) {
	f.Add([]byte("x"))
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_ = errors.Join(tar.NewWriter(z).Close(), z.Close())
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "x")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := backup.Verify(t.Context(), path); err == nil {
			t.Error("it was taken for a backup")
		}
	})
}
