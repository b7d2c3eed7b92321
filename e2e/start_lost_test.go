package e2e_test

import (
	"testing"

	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/faultproxy"
	"lilac/internal/testkit/postgrestest"
)

// PostgreSQL can be lost between the moment at which a process becomes the owner of the database and
// the one at which it is ready, for example if a proxy is not sure yet who the primary is. The process
// tries again.
func TestAStartDuringAFailoverIsRepeated(t *testing.T) {
	t.Parallel()
	effort.SkipPostgres(t)
	link := faultproxy.Start(t, postgrestest.Start(t).Addr())
	link.CloseAfter(2) // those of the lease: its own, and one that looks for a pooler
	s := e2e.Start(t, e2e.OnPostgres(postgrestest.URLAt(link.Addr, ""))...)
	s.Kill()
}
