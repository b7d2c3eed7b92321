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

// Remember keeps what the server holds now in its second database.
func (s *Server) Remember() {
	s.t.Helper()
	s.Do("EVAL", copyDatabase, "0", "0", "1")
}

// Forget goes back to what the server held at [Server.Remember], while it runs:
// what a [Server.Rollback] leaves, without the time that it takes.
func (s *Server) Forget() {
	s.t.Helper()
	s.Do("EVAL", copyDatabase, "0", "1", "0")
}

// copyDatabase makes one database what another is.
const copyDatabase = `
redis.call('SELECT', ARGV[2])
redis.call('FLUSHDB')
redis.call('SELECT', ARGV[1])
for _, k in ipairs(redis.call('KEYS', '*')) do redis.call('COPY', k, k, 'DB', ARGV[2]) end
`

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
