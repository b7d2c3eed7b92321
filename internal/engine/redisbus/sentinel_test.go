package redisbus_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lilac/internal/engine/redisbus"
	"lilac/internal/foundation/fault"
	"lilac/internal/testkit/freeport"
	"lilac/internal/testkit/redistest"
)

func TestSentinelsNameTheMaster(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	addr := startSentinel(t, server)
	if err := open(t, redisbus.Options{URL: "redis://" + addr + "?master_set=ours"}); err != nil {
		t.Errorf("through a sentinel: %v", err)
	}
	if err := open(t, redisbus.Options{URL: "redis://" + addr}); fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), "master_set") {
		t.Errorf("a sentinel without the name of its master: %v, want a refusal that says what to add", err)
	}
	if err := open(t, redisbus.Options{URL: "redis://" + addr + "?master_set=theirs"}); fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), "no master with the name \"theirs\"") {
		t.Errorf("a name that the sentinel does not know: %v, want a refusal that says so", err)
	}
	if err := open(t, redisbus.Options{URL: server.URL() + "?master_set=ours"}); fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), "is no sentinel") {
		t.Errorf("a server instead of a sentinel: %v, want a refusal that says so", err)
	}
	if err := open(t, redisbus.Options{URL: "redis://" + addr + "?addr=127.0.0.1:1"}); fault.KindOf(err) != fault.Invalid {
		t.Errorf("several servers without a name: %v, want a refusal", err)
	}
}

// Sentinels have a password of their own, and who lacks it is told that it is theirs.
func TestSentinelsWithAPassword(t *testing.T) {
	server := redistest.Start(t, redistest.Options{Password: "of-the-server", Config: []string{
		"user enough on >pw ~lilac:* resetchannels -@all +@read +@write +@scripting +@connection +info +role",
	}})
	addr := startSentinel(t, server, "requirepass of-the-sentinel", "sentinel auth-pass ours of-the-server")
	for name, c := range map[string]struct{ server, sentinel, want string }{
		"both":                        {"of-the-server", "of-the-sentinel", ""},
		"that of the server alone":    {"of-the-server", "", "The sentinel at " + addr + " wants a password"},
		"that of the sentinel alone":  {"", "of-the-sentinel", "refuses the password"},
		"a wrong one of the sentinel": {"of-the-server", "of-the-server", "refuses the password"},
		"none":                        {"", "", "refuses the password"},
	} {
		opt := redisbus.Options{URL: "redis://" + addr + "?master_set=ours", Password: c.server, SentinelPassword: c.sentinel}
		err := open(t, opt)
		if c.want == "" && err != nil {
			t.Errorf("with %s: %v", name, err)
		}
		if c.want != "" && (fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "bus.sentinelPasswordFile")) {
			t.Errorf("with %s: %v, want a refusal that says %q and where it is set", name, err, c.want)
		}
	}
	// The rights that docs/operations.md names for a user who is found by sentinels.
	if _, _, err := redisbus.Inspect(context.Background(), redisbus.Options{URL: "redis://enough:pw@" + addr + "?master_set=ours", SentinelPassword: "of-the-sentinel"}); err != nil {
		t.Errorf("with the rights that are needed: %v", err)
	}
}

// When the master dies and a replica takes its place, what was published before,
// meanwhile and after is handled, once.
func TestAFailOverIsFollowed(t *testing.T) {
	master := redistest.Start(t, redistest.Options{})
	host, port, err := net.SplitHostPort(master.Addr)
	if err != nil {
		t.Fatal(err)
	}
	replica := redistest.Start(t, redistest.Options{Config: []string{"replicaof " + host + " " + port, "repl-diskless-sync-delay 0"}})
	says := func(s *redistest.Server, what string) bool {
		// A sentinel that makes it the master cuts its connections.
		reply, err := s.TryDo("INFO", "replication")
		info, _ := reply.(string)
		return err == nil && strings.Contains(info, what)
	}
	until(t, "the replica follows", func() bool { return says(replica, "master_link_status:up") })
	addr := startSentinel(t, master)
	w := newHastyWorld(t, master, "redis://"+addr+"?master_set=ours")
	w.attach()
	w.publish("before", 5)
	w.expect(names("before", 5))
	master.Kill()
	w.publish("during", 20)
	until(t, "the replica is the master", func() bool { return says(replica, "role:master") })
	w.healthy()
	w.publish("after", 5)
	w.expect(names("before", 5, "during", 20, "after", 5))
	if got := len(w.places(plain)); got != 30 {
		t.Errorf("the new master holds %d events, want 30", got)
	}
	w.detach()
}

// startSentinel starts a sentinel that watches a master as "ours", and returns
// its address. What it is given is added to its configuration.
func startSentinel(t *testing.T, master *redistest.Server, more ...string) (addr string) {
	t.Helper()
	host, port, err := net.SplitHostPort(master.Addr)
	if err != nil {
		t.Fatal(err)
	}
	addr = freeport.Loopback(t)
	_, own, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "sentinel.conf")
	text := fmt.Sprintf("bind 127.0.0.1\nport %s\ndir %s\nsentinel monitor ours %s %s 1\nsentinel down-after-milliseconds ours 500\nsentinel failover-timeout ours 5000\n%s\n",
		own, filepath.Dir(file), host, port, strings.Join(more, "\n"))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(redistest.Program(), file, "--sentinel")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	until(t, "the sentinel listens", func() bool {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	return addr
}
