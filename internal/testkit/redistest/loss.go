package redistest

import (
	"os"
	"path/filepath"
)

// FlushAll removes all data of the server.
func (s *Server) FlushAll() {
	s.t.Helper()
	s.Do("FLUSHALL")
}

// Remember saves the current data of the server in its second database.
func (s *Server) Remember() {
	s.t.Helper()
	s.Do("EVAL", copyDatabase, "0", "0", "1")
}

// Forget restores the data that [Server.Remember] saved, while the server runs. The
// result is the same as that of [Server.Rollback], but faster.
func (s *Server) Forget() {
	s.t.Helper()
	s.Do("EVAL", copyDatabase, "0", "1", "0")
}

// copyDatabase replaces one database with a copy of another.
const copyDatabase = `
redis.call('SELECT', ARGV[2])
redis.call('FLUSHDB')
redis.call('SELECT', ARGV[1])
for _, k in ipairs(redis.call('KEYS', '*')) do redis.call('COPY', k, k, 'DB', ARGV[2]) end
`

// Snapshot is a copy of a server's append-only file. The zero value is empty.
type Snapshot struct{ dir string }

// Snapshot copies the current append-only file.
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

// Rollback kills the server and starts it with the data of a snapshot. It simulates a
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
