package redistest

import (
	"os"
	"path/filepath"
)

// FlushAll removes everything that the server holds.
func (s *Server) FlushAll() {
	s.t.Helper()
	s.Do("FLUSHALL")
}

// Snapshot is what the append-only file of a server held at a moment. The zero
// value holds nothing.
type Snapshot struct{ dir string }

// Snapshot copies the append-only file as it is now.
func (s *Server) Snapshot() Snapshot {
	s.t.Helper()
	if s.opt.Volatile {
		s.t.Fatal("a volatile server has nothing to copy")
	}
	copied := s.t.TempDir()
	if err := os.CopyFS(copied, os.DirFS(s.appendDir())); err != nil {
		s.t.Fatal(err)
	}
	return Snapshot{dir: copied}
}

// Rollback kills the server and starts it with what it held at a snapshot: a
// power cut before the last appends were synced.
func (s *Server) Rollback(to Snapshot) {
	s.t.Helper()
	s.Kill()
	if err := os.RemoveAll(s.appendDir()); err != nil {
		s.t.Fatal(err)
	}
	if to.dir != "" {
		if err := os.CopyFS(s.appendDir(), os.DirFS(to.dir)); err != nil {
			s.t.Fatal(err)
		}
	}
	s.Restart()
}

func (s *Server) appendDir() string { return filepath.Join(s.dir, "appendonlydir") }
