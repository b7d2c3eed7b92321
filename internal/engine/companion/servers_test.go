package companion_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"lilac/internal/engine/companion"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/redistest"
)

// When the master dies and a replica takes its place, everything is there in the end.
func TestAFailoverIsFollowed(t *testing.T) {
	effort.SkipLong(t, "Redis with Sentinel")
	t.Parallel()
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
	addr := redistest.StartSentinel(t, master)
	w := newWorld(t, "redis://"+addr+"?master_set=ours")
	w.publish(topic, "before", 50)
	w.same(master, topic)
	handIn(master, "a")
	w.empty(master)
	master.Kill()
	w.publish(topic, "during", 50)
	until(t, "the replica is the master", func() bool { return says(replica, "role:master") })
	w.same(replica, topic)
	handIn(replica, "b")
	w.empty(replica)
	w.says("")
}

// The keys of a cluster are on different masters.
func TestAClusterIsUsed(t *testing.T) {
	effort.SkipLong(t, "A cluster of Redis")
	t.Parallel()
	masters := redistest.StartCluster(t, 3)
	w := newWorld(t, masters[1].URL()+"?addr="+masters[2].Addr)
	topics := event.Topics()
	for i := range 20 {
		topics = append(topics, event.OutputTopic(fmt.Sprint("web:s:", i)))
	}
	for _, topic := range topics {
		w.publish(topic, "e", 10)
	}
	used := map[*redistest.Server]int{}
	for _, topic := range topics {
		s := holder(masters, "lilac:s:"+string(topic))
		used[s]++
		w.same(s, topic)
	}
	if len(used) != 3 {
		t.Errorf("%d masters have keys, want 3", len(used))
	}
	in := holder(masters, "lilac:in")
	handIn(in, "a")
	in.Do("XADD", "lilac:in", "*", "x", "y")
	w.empty(in)
	w.says("entries in Redis that could not be used: 1")
	env := holder(masters, "lilac:s:env")
	env.Do("DEL", "lilac:s:env")
	w.same(env, topic)
	env.Kill()
	w.publish(topic, "during", 10)
	env.Restart()
	w.same(env, topic)
	// One address is enough, and the client finds out that it is a cluster.
	if found, err := companion.Inspect(t.Context(), companion.Options{URL: masters[0].URL()}); err != nil || !strings.Contains(found.Found, "cluster") {
		t.Errorf("a look finds %+v, %v", found, err)
	}
}

// holder returns the master that has a key.
func holder(masters []*redistest.Server, key string) *redistest.Server {
	slot := masters[0].Do("CLUSTER", "KEYSLOT", key).(int64)
	return masters[(slot*int64(len(masters))+int64(len(masters))-1)/16384]
}

func TestTLSAndPasswords(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{TLS: true, Password: "hunter2"})
	w := &world{t: t, opt: companion.Options{URL: "rediss://" + server.Addr, Password: "hunter2", CAFile: server.CAFile}, dir: t.TempDir(), now: time.Now}
	w.start()
	t.Cleanup(w.close)
	w.publish(topic, "e", 3)
	w.same(server, topic)
	for want, opt := range map[string]companion.Options{
		"wants a password":  {URL: "rediss://" + server.Addr, CAFile: server.CAFile},
		"refuses the user":  {URL: "rediss://" + server.Addr, CAFile: server.CAFile, Password: "hunter3"},
		"signed by unknown": {URL: "rediss://" + server.Addr, Password: "hunter2"},
		"cannot be reached": {URL: "redis://127.0.0.1:1"},
		"looks like":        {URL: "nonsense"},
	} {
		if _, err := companion.Inspect(t.Context(), opt); err == nil || !strings.Contains(err.Error(), want) && want != "looks like" {
			t.Errorf("%q: %v", want, err)
		}
	}
}

// Hosts of Redis write their URLs in different ways.
func TestTheFormsOfAURL(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "redis.sock")
	server := redistest.Start(t, redistest.Options{Password: "hunter2", Config: []string{"unixsocket " + socket}})
	for _, url := range []string{
		"redis://:hunter2@" + server.Addr + "/", "redis://default:hunter2@" + server.Addr + "/0", "redis://default:hunter2@" + server.Addr + "/?db=1",
		"valkey://default:hunter2@" + server.Addr, "unix://:hunter2@" + socket, "unix://default:hunter2@" + socket + "?db=2",
	} {
		found, err := companion.Inspect(t.Context(), companion.Options{URL: url})
		where := server.Addr
		if strings.HasPrefix(url, "unix:") {
			where = socket
		}
		if err != nil || !strings.HasSuffix(found.Found, " at "+where) {
			t.Errorf("%s: %q, %v", url, found.Found, err)
		}
	}
	w := newWorld(t, "unix://:hunter2@"+socket)
	w.publish(topic, "e", 3)
	w.same(server, topic)
}

// A server may want to know its clients by their certificates.
func TestARedisThatWantsACertificate(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{TLS: true})
	server.Do("CONFIG", "SET", "tls-auth-clients", "yes")
	opt := companion.Options{URL: server.URL(), CAFile: server.CAFile}
	if _, err := companion.Inspect(t.Context(), opt); err == nil || !strings.Contains(err.Error(), "cannot be reached") {
		t.Errorf("without a certificate: %v", err)
	}
	dir := filepath.Dir(server.CAFile)
	opt.CertFile, opt.KeyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	if found, err := companion.Inspect(t.Context(), opt); err != nil {
		t.Errorf("%+v, %v", found, err)
	}
	opt.KeyFile = opt.CertFile
	if _, err := companion.Inspect(t.Context(), opt); fault.KindOf(err) != fault.Invalid {
		t.Errorf("with a wrong key: %v", err)
	}
}

// What a server says before it closes a connection is reported, and one that says nothing
// in a handshake is left after a while.
func TestAConnectionThatTheServerRefuses(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	until(t, "a server without TLS is left", func() bool { // the context has no deadline
		_, err := companion.Inspect(t.Context(), companion.Options{URL: "rediss://" + server.Addr, ReplyWithin: 200 * time.Millisecond})
		return errors.Is(err, context.DeadlineExceeded)
	})
	server.Do("CONFIG", "SET", "maxclients", "1")
	conn, err := net.Dial("tcp", server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	until(t, "the reason is reported", func() bool {
		_, err := companion.Inspect(t.Context(), companion.Options{URL: server.URL()})
		return err != nil && strings.Contains(err.Error(), "max number of clients reached. Raise maxclients")
	})
	protected := answering(t, "-DENIED Redis is running in protected mode because …\r\n")
	if _, err := companion.Inspect(t.Context(), companion.Options{URL: "redis://" + protected}); err == nil || !strings.Contains(err.Error(), "protected mode") {
		t.Error(err)
	}
}

// answering returns the address of a server that says something and closes the connection.
func answering(t *testing.T, says string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, says)
			_ = conn.Close()
		}
	}()
	return l.Addr().String()
}

// Without the right to write or to run scripts, and without a command, a look at the server
// finds fault. What is reported has nothing of the events.
func TestWhatTheServerForbids(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{Config: []string{
		"user reads on >pw ~lilac:* resetchannels -@all +@read +@scripting +@connection +info",
		"user commands on >pw ~lilac:* resetchannels -@all +@read +@write +@connection +info",
		`rename-command XINFO ""`,
	}})
	for user, reason := range map[string]string{
		"reads":    "run (this command|the '[a-z]+' command)", // Redis 7.0 does not name a script's command
		"commands": "run the 'eval' command",
	} {
		want := regexp.MustCompile("does not let the user in bus.url do what is needed: .*" + reason + ".* Allow it with ACL SETUSER.$")
		if _, err := companion.Inspect(t.Context(), companion.Options{URL: "redis://" + user + ":pw@" + server.Addr}); err == nil || !want.MatchString(err.Error()) {
			t.Errorf("%s: %v", user, err)
		}
	}
	w := newWorld(t, server.URL())
	w.publish(topic, "e", 1)
	w.says("unknown command 'XINFO'. Lilac needs Redis 7.0 or later, without rename-command.")
}

// The rights that docs/redis.md names are enough.
func TestTheRightsThatAreNeeded(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{Config: []string{
		"user lilac on >pw ~lilac:* resetchannels -@all +@read +@write +@scripting +@connection +info +role",
	}})
	w := newWorld(t, "redis://lilac:pw@"+server.Addr)
	w.publish(topic, "e", 3)
	w.same(server, topic)
	server.Do("XADD", "lilac:s:env", "*", "x", "y")
	handIn(server, "a")
	w.empty(server)
	w.same(server, topic)
	if _, err := companion.Inspect(t.Context(), companion.Options{URL: "redis://lilac:pw@" + server.Addr}); err != nil {
		t.Error(err)
	}
}

// A server that refuses some commands is one problem, and no attempt seems to end it.
func TestAMissingRightIsReportedOnce(t *testing.T) {
	for missing, command := range map[string]string{"-eval -evalsha": "evalsha", "-xack": "xack", "-xdel": "xdel"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, redistest.Options{Config: []string{"user lilac on >pw ~lilac:* resetchannels +@all " + missing}})
			w := newWorld(t, "redis://lilac:pw@"+server.Addr)
			w.publish(topic, "e", 1)
			handIn(server, "a")
			until(t, "it has been tried four times", func() bool {
				stats, _ := server.Do("INFO", "commandstats").(string)
				return regexp.MustCompile("cmdstat_" + command + `:.*rejected_calls=([4-9]|\d\d)`).MatchString(stats)
			})
			w.says("run the '" + command + "' command")
			if w.log.has("works again") {
				t.Error("a connection that does nothing counted as one that works")
			}
			server.Do("ACL", "SETUSER", "lilac", "+@all")
			w.same(server, topic)
			w.empty(server)
			w.says("")
		})
	}
}

// A proxy with a short idle timeout, or an administrator, closes the connections again and again.
func TestConnectionsThatEndFillNoLog(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	w := newWorld(t, server.URL())
	w.says("")
	for i := range 5 {
		server.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		w.publish(topic, fmt.Sprint("e", i), 1)
		w.same(server, topic)
		w.says("")
	}
	// Each of the two connections.
	if n := w.log.count("does not work"); n > 2 {
		t.Errorf("%d lines about 5 ends, want 2 at most", n)
	}
}
