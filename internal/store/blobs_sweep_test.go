package store_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lilac/internal/core/session"
	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/store"
)

const keepFor = 7 * 24 * time.Hour

// shelf is a blob store, with the database that contains the references to its blobs.
type shelf struct {
	t     *testing.T
	dir   string
	db    *db.DB
	store *store.Store
	*store.Blobs
}

func newShelf(t *testing.T) *shelf {
	t.Helper()
	d, s := open(t)
	f := &shelf{t: t, dir: t.TempDir(), db: d, store: s}
	var err error
	if f.Blobs, err = store.OpenBlobs(store.BlobsDir(f.dir), nil, 1000); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *shelf) put(text string) string {
	f.t.Helper()
	ref, err := f.Put(f.t.Context(), []byte(text))
	if err != nil {
		f.t.Fatal(err)
	}
	return ref
}

func (f *shelf) path(ref string) string {
	name := strings.TrimPrefix(ref, store.BlobPrefix)
	return filepath.Join(f.dir, "blobs", name[:2], name)
}

// sweep runs a sweep with a clock that is later than now by the given duration.
func (f *shelf) sweep(later time.Duration) store.Swept {
	f.t.Helper()
	out, err := f.Sweep(f.t.Context(), time.Now().Add(later), keepFor, f.referenced)
	if err != nil {
		f.t.Fatal(err)
	}
	return out
}

func (f *shelf) referenced(names []string) (out map[string]bool, err error) {
	err = f.db.Read(context.Background(), func(q db.Queryer) (err error) {
		out, err = f.store.Files.Referenced(q, names)
		return err
	})
	return out, err
}

func (f *shelf) has(ref string) bool {
	_, err := f.Get(f.t.Context(), ref)
	return err == nil
}

func filePart(ref, name string) chat.Part {
	data, _ := json.Marshal(ref) // strings always marshal
	return chat.Part{Type: chat.TypeFile, Data: data, Filename: name, MediaType: "text/plain"}
}

func withFile(ref string) chat.Message {
	return chat.Message{Role: chat.User, Parts: []chat.Part{chat.TextPart("look"), filePart(ref, "a.txt")}}
}

// Each kind of reference protects a file from the sweep, regardless of its age. When the
// last reference is gone, the sweep removes the file after its retention, not earlier.
func TestFilesGoWhenNothingHasReferredToThemForLong(t *testing.T) {
	for name, c := range map[string]struct {
		refer, forget func(f *shelf, tx *db.Tx, ref string) error
	}{
		"a history": {
			func(f *shelf, tx *db.Tx, ref string) error {
				_, err := f.store.History.AppendHistory(tx, "s", session.HistoryMessage{ID: "m", Message: withFile(ref)})
				return err
			},
			func(f *shelf, tx *db.Tx, _ string) error { return f.store.Sessions.DeleteSession(tx, "s") },
		},
		"a mailbox": {
			func(f *shelf, tx *db.Tx, ref string) error {
				_, err := f.store.Mailbox.PutMail(tx, session.Mail{SessionID: "s", MessageID: "m", Queue: event.Prompt, State: session.MailWaiting, Messages: []chat.Message{withFile(ref)}})
				return err
			},
			func(f *shelf, tx *db.Tx, _ string) error { return f.store.Sessions.DeleteSession(tx, "s") },
		},
		"a prompt that was accepted": {
			func(f *shelf, tx *db.Tx, ref string) error {
				return f.store.Files.ReferFiles(tx, "s", []chat.Part{filePart(ref, "a")})
			},
			func(f *shelf, tx *db.Tx, _ string) error { return f.store.Sessions.DeleteSession(tx, "s") },
		},
		"a file that was given": {
			func(f *shelf, tx *db.Tx, ref string) error {
				_, err := f.store.Files.PutFile(tx, session.File{SessionID: "s", RequestID: "r", ID: "c/0", Blob: ref})
				return err
			},
			func(f *shelf, tx *db.Tx, _ string) error { return f.store.Sessions.DeleteSession(tx, "s") },
		},
		"a message of a platform that is deleted": {
			func(_ *shelf, tx *db.Tx, ref string) error {
				m := cached("5", "", "x")
				m.Attachments = []surface.Attachment{{ID: "1", URL: "u", Blob: ref}}
				return store.SurfaceCache{}.PutMessage(tx, m)
			},
			func(_ *shelf, tx *db.Tx, _ string) error {
				return store.SurfaceCache{}.MarkDeleted(tx, "discord", "10", "5", 9)
			},
		},
		"a message of a platform that is edited": {
			func(_ *shelf, tx *db.Tx, ref string) error {
				m := cached("5", "", "x")
				m.Attachments = []surface.Attachment{{ID: "1", URL: "u", Blob: ref}}
				return store.SurfaceCache{}.PutMessage(tx, m)
			},
			func(_ *shelf, tx *db.Tx, _ string) error {
				m := cached("5", "", "y")
				m.EditedAt = 7
				return store.SurfaceCache{}.PutMessage(tx, m)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newShelf(t)
			update(t, f.db, func(tx *db.Tx) error {
				return f.store.Sessions.CreateSession(tx, session.Session{ID: "s", Client: "web"})
			})
			ref, loose := f.put("kept"), f.put("loose")
			update(t, f.db, func(tx *db.Tx) error { return c.refer(f, tx, ref) })
			if f.sweep(keepFor - time.Hour); !f.has(loose) {
				t.Fatal("a file went before its age was over")
			}
			if got := f.sweep(keepFor + time.Hour); f.has(loose) || got.Removed != 1 || got.Bytes != 5 {
				t.Errorf("control: a file that nothing refers to stays: %+v", got)
			}
			for _, later := range []time.Duration{keepFor + 2*time.Hour, 3 * keepFor, 100 * keepFor} {
				if f.sweep(later); !f.has(ref) {
					t.Fatalf("what is referred to went after %s", later)
				}
			}
			update(t, f.db, func(tx *db.Tx) error { return c.forget(f, tx, ref) })
			// The age of the file starts when a sweep last found a reference to it.
			if f.sweep(101*keepFor - 2*time.Hour - 24*time.Hour); !f.has(ref) {
				t.Error("it went at once")
			}
			if f.sweep(101*keepFor + time.Hour); f.has(ref) {
				t.Error("it stays for ever")
			}
		})
	}
}

// A crash after the write of a file and before the write of its reference leaves a file
// that a later sweep removes, unless Put stores the same content again in the meantime.
func TestWhatACrashLeavesGoesLaterAndWhatIsPutAgainStays(t *testing.T) {
	f := newShelf(t)
	ref := f.put("the crash came before the reference")
	half := filepath.Join(filepath.Dir(f.path(ref)), ".put-123")
	if err := os.WriteFile(half, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-2 * keepFor)
	for _, path := range []string{half, f.path(ref)} {
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}
	f.put("the crash came before the reference") // the caller is about to add its reference
	if f.sweep(0); !f.has(ref) {
		t.Error("a file that was just put again went")
	}
	if _, err := os.Stat(half); err == nil {
		t.Error("what was half written stays")
	}
	if f.sweep(keepFor + time.Hour); f.has(ref) {
		t.Error("control: it never goes")
	}
}

// A sweep that runs concurrently with Put of the same old content does not remove files
// that Put has just returned and that have no reference yet.
func TestASweepBesideAPutLosesNothing(t *testing.T) {
	f := newShelf(t)
	old := time.Now().Add(-2 * keepFor)
	const files, rounds = 8, 10
	for round := range rounds {
		var refs []string
		for i := range files {
			ref := f.put(fmt.Sprint(round, " ", i))
			if err := os.Chtimes(f.path(ref), old, old); err != nil {
				t.Fatal(err)
			}
			refs = append(refs, ref)
		}
		var both sync.WaitGroup
		both.Go(func() {
			if _, err := f.Sweep(context.Background(), time.Now(), keepFor, f.referenced); err != nil {
				t.Error(err)
			}
		})
		both.Go(func() {
			for i := range files {
				if _, err := f.Put(context.Background(), []byte(fmt.Sprint(round, " ", i))); err != nil {
					t.Error(err)
				}
			}
		})
		both.Wait()
		if i := slices.IndexFunc(refs, func(ref string) bool { return !f.has(ref) }); i >= 0 {
			t.Fatalf("round %d: file %d was put and is not there", round, i)
		}
	}
}

func TestFilesOfRequestsAndWhoseTheyAre(t *testing.T) {
	f := newShelf(t)
	ref := f.put("x")
	update(t, f.db, func(tx *db.Tx) error {
		for _, file := range []session.File{
			{SessionID: "s", RequestID: "r1", ID: "c/1", CreatedAt: 5, Filename: "b", MimeType: "a/b", Bytes: 1, Blob: ref},
			{SessionID: "s", RequestID: "r1", ID: "c/0", CreatedAt: 5, Filename: "a", MimeType: "a/b", Bytes: 1, Blob: ref},
			{SessionID: "s", RequestID: "r1", ID: "c/0", CreatedAt: 6, Filename: "again", Blob: ref},
			{SessionID: "s", RequestID: "r2", ID: "c/0", CreatedAt: 4, Filename: "c", Blob: ref},
			{SessionID: "other", RequestID: "r1", ID: "c/0", CreatedAt: 4, Filename: "d", Blob: "no reference"},
		} {
			fresh, err := f.store.Files.PutFile(tx, file)
			if err != nil {
				return err
			}
			if fresh == (file.Filename == "again") {
				t.Errorf("%s is fresh: %v", file.Filename, fresh)
			}
		}
		return nil
	})
	err := read(t, f.db, func(q db.Queryer) error {
		for want, ids := range map[string][]string{"b a": {"r1"}, "c b a": {"r1", "r2", "r3"}, "": nil} {
			files, err := f.store.Files.Files(q, "s", ids)
			if err != nil {
				return err
			}
			var names []string
			for _, file := range files {
				names = append(names, file.Filename)
			}
			if got := strings.Join(names, " "); got != want {
				t.Errorf("of %v: %q, want %q", ids, got, want)
			}
		}
		if name, kind, err := f.store.Files.FileOf(q, "s", ref); err != nil || name != "b" || kind != "a/b" {
			t.Errorf("%q, %q, %v", name, kind, err)
		}
		for _, c := range [][2]string{{"other", ref}, {"s", store.BlobPrefix + strings.Repeat("0", 64)}, {"s", "x"}, {"s", ""}, {"s", store.BlobPrefix + "../../token"}} {
			if _, _, err := f.store.Files.FileOf(q, c[0], c[1]); fault.KindOf(err) != fault.NotFound {
				t.Errorf("%v: %v", c, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The migration that added references collects them from the rows of an older database.
func TestReferencesOfAnOlderDataDirectoryAreTakenOver(t *testing.T) {
	dir := t.TempDir()
	older := slices.DeleteFunc(slices.Clone(store.Migrations), func(m db.Migration) bool { return m.Name == "files.0001-files" })
	ref := func(n int) string { return store.BlobPrefix + strings.Repeat(fmt.Sprint(n), 64) }
	with := func(migrations []db.Migration, fn func(d *db.DB)) {
		d, err := db.Open(t.Context(), db.Options{Dir: dir, Migrations: migrations})
		if err != nil {
			t.Fatal(err)
		}
		fn(d)
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	with(older, func(d *db.DB) {
		update(t, d, func(tx *db.Tx) error {
			for _, statement := range []string{
				`INSERT INTO history (session_id, seq, id, request_id, created_at, json, checksum) VALUES ('s', 1, 'a', '', 0, CAST('{"role":"user","content":[{"type":"file","data":"` + ref(1) + `"},{"type":"image","image":"` + ref(2) + `"}]}' AS BLOB), 0)`,
				`INSERT INTO history (session_id, seq, id, request_id, created_at, json, checksum) VALUES ('s', 2, 'b', '', 0, CAST('damaged ` + ref(5) + `' AS BLOB), 0)`,
				`INSERT INTO session_inbox (session_id, message_id, request_id, queue, state, event_id, created_at, json, checksum) VALUES ('t', 'm', '', '', '', '', 0, CAST('[{"role":"user","content":[{"type":"file","data":"` + ref(3) + `"}]}]' AS BLOB), 0)`,
				`INSERT INTO surface_messages (platform, channel_id, id, reply_to, edited_at, deleted_at, json) VALUES ('discord', '10', '5', '', 0, 0, CAST('{"platform":"discord","channelId":"10","id":"5","attachments":[{"url":"u","blob":"` + ref(4) + `"}]}' AS BLOB))`,
			} {
				if _, err := tx.Exec(statement); err != nil {
					return err
				}
			}
			return nil
		})
	})
	with(store.Migrations, func(d *db.DB) {
		s := store.New(d)
		err := d.Read(t.Context(), func(q db.Queryer) error {
			var names []string
			for n := range 6 {
				names = append(names, strings.TrimPrefix(ref(n), store.BlobPrefix))
			}
			got, err := s.Files.Referenced(q, names)
			for n := range 6 {
				if got[names[n]] != (n >= 1 && n <= 4) {
					t.Errorf("%d is referred to: %v", n, got[names[n]])
				}
			}
			if _, _, err := s.Files.FileOf(q, "s", ref(2)); err != nil {
				t.Error(err)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
		// Deleting a message also removes a reference that the migration collected.
		update(t, d, func(tx *db.Tx) error {
			return store.SurfaceCache{}.MarkDeleted(tx, "discord", "10", "5", 1)
		})
		if err := d.Read(t.Context(), func(q db.Queryer) error {
			got, err := s.Files.Referenced(q, []string{strings.Repeat("4", 64)})
			if len(got) != 0 {
				t.Error("the deleted message still refers to its file")
			}
			return err
		}); err != nil {
			t.Error(err)
		}
	})
}
