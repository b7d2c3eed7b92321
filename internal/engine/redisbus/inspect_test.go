package redisbus

import (
	"strings"
	"testing"
)

func TestRefusedWritesAreExplained(t *testing.T) {
	for name, c := range map[string]struct {
		code string
		info map[string]string
		want string
	}{
		"nothing is known":         {"", map[string]string{}, ""},
		"all is well":              {"", map[string]string{"maxmemory": "0", "used_memory": "9", "aof_last_write_status": "ok", "rdb_last_bgsave_status": "ok"}, ""},
		"room in memory":           {"", map[string]string{"maxmemory": "100000000", "used_memory": "9000000"}, ""},
		"no room for a batch":      {"", map[string]string{"maxmemory": "100000000", "used_memory": "99000000", "maxmemory_human": "95M"}, "memory (maxmemory 95M)"},
		"no room at all":           {"OOM", map[string]string{"maxmemory_human": "95M"}, "memory (maxmemory 95M)"},
		"no append-only file":      {"MISCONF", map[string]string{"aof_last_write_status": "err"}, "append-only file"},
		"no save":                  {"MISCONF", map[string]string{"rdb_last_bgsave_status": "err"}, "stop-writes-on-bgsave-error"},
		"no save, which is no bar": {"", map[string]string{"rdb_last_bgsave_status": "err"}, ""},
		"too few replicas":         {"NOREPLICAS", map[string]string{"min_slaves_good_slaves": "1"}, "min-replicas-to-write"},
		"a script it cannot read":  {"ERR", map[string]string{}, ""},
	} {
		if got := refusesWrites(c.code, c.info); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %q, want it to name %q", name, got, c.want)
		}
	}
}
