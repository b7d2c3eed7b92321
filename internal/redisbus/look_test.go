package redisbus

import (
	"strings"
	"testing"
)

func TestAServerThatRefusesWritesSaysWhy(t *testing.T) {
	for name, c := range map[string]struct {
		info map[string]string
		want string
	}{
		"nothing is known":      {map[string]string{}, ""},
		"all is well":           {map[string]string{"maxmemory": "0", "used_memory": "9", "aof_last_write_status": "ok", "rdb_last_bgsave_status": "ok"}, ""},
		"room in memory":        {map[string]string{"maxmemory": "100000000", "used_memory": "9000000"}, ""},
		"no room for a batch":   {map[string]string{"maxmemory": "100000000", "used_memory": "99000000", "maxmemory_human": "95M"}, "memory (maxmemory 95M)"},
		"no append-only file":   {map[string]string{"aof_last_write_status": "err"}, "append-only file"},
		"no save":               {map[string]string{"rdb_last_bgsave_status": "err"}, "stop-writes-on-bgsave-error"},
		"a replica that is fit": {map[string]string{"min_slaves_good_slaves": "1"}, ""},
		"no such replica":       {map[string]string{"min_slaves_good_slaves": "0"}, "min-replicas-to-write"},
	} {
		if got := refusesWrites(c.info); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %q, want it to name %q", name, got, c.want)
		}
	}
}
