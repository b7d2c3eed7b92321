package db

import (
	"errors"
	"strings"
	"testing"
	"time"

	"lilac/internal/foundation/fault"
)

func TestAnExpiredLeaseSaysWhy(t *testing.T) {
	for name, c := range map[string]struct {
		err        error
		want, deny string
	}{
		"the renewal came too late": {nil, "renewed too late, after 8.2s: this process was suspended, its machine was busy, or PostgreSQL answered slowly", "Check that"},
		"no renewal":                {errors.New("dial tcp: connection refused"), "could not be renewed for 8.2s: PostgreSQL cannot be reached: dial tcp: connection refused. Check that it runs", "suspended"},
	} {
		got := fault.ToWire(leaseExpired(8204*time.Millisecond, c.err))
		if got.Code != CodeLeaseExpired || !strings.Contains(got.Message, c.want) || strings.Contains(got.Message, c.deny) {
			t.Errorf("%s: %+v, want %q", name, got, c.want)
		}
	}
}
