package redisbus_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/engine/delivery"
	"lilac/internal/engine/redisbus"
	"lilac/internal/foundation/fault"
	"lilac/internal/testkit/bustest"
	"lilac/internal/testkit/faultproxy"
	"lilac/internal/testkit/freeport"
	"lilac/internal/testkit/redistest"
)

// open opens an engine on a new database and publishes one event with it.
func open(t *testing.T, opt redisbus.Options) error {
	t.Helper()
	database, err := db.Open(context.Background(), db.Options{Dir: t.TempDir(), Migrations: redisbus.Migrations})
	if err != nil {
		t.Fatal(err)
	}
	defer database.Close()
	opt.Options, opt.ReplyWithin = delivery.Options{TrimEvery: -1}, patience
	b, err := redisbus.Open(context.Background(), database, opt)
	if err != nil {
		return err
	}
	defer b.Close()
	return b.Publish(context.Background(), bustest.Event(plain, "e", "l"))
}

func TestUserAndPassword(t *testing.T) {
	server := redistest.Start(t, redistest.Options{User: "lilac", Password: "correct-horse"})
	if err := open(t, redisbus.Options{URL: server.URL()}); err != nil {
		t.Errorf("with both in the URL: %v", err)
	}
	url := "redis://lilac@" + server.Addr
	if err := open(t, redisbus.Options{URL: url, Prefix: "other", Password: "correct-horse"}); err != nil {
		t.Errorf("with the password apart: %v", err)
	}
	for name, password := range map[string]string{"a wrong password": "battery-staple", "none": ""} {
		err := open(t, redisbus.Options{URL: url, Password: password})
		if fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), "password") {
			t.Errorf("with %s: %v, want a refusal that says so", name, err)
		}
		if err != nil && password != "" && strings.Contains(err.Error(), password) {
			t.Errorf("the error shows the password: %v", err)
		}
	}
}

// Readers get Unavailable, not Invalid, while the password is wrong, so they retry.
func TestAPasswordThatIsChangedWhileItRunsIsWaitedFor(t *testing.T) {
	server := redistest.Start(t, redistest.Options{Password: "first"})
	w := newWorld(t, server, server.URL())
	w.attach()
	server.Do("CONFIG", "SET", "requirepass", "second")
	as := func(password string, args ...string) {
		if _, err := server.TryDoAs("", password, args...); err != nil {
			t.Fatal(err)
		}
	}
	as("second", "CLIENT", "KILL", "TYPE", "normal")
	w.publish("a", 1)
	until(t, "the password is refused", func() bool {
		err := w.bus.Healthy(context.Background())
		return err != nil && strings.Contains(err.Error(), "refuses the user or the password")
	})
	for what, err := range map[string]error{
		"the health":             w.bus.Healthy(context.Background()),
		"the end of a topic":     second(w.bus.Last(context.Background(), plain)),
		"the events of a topic":  second(w.bus.Fetch(context.Background(), plain, "", 1)),
		"a tail that begins now": w.bus.Tail(context.Background(), bus.Tail{Topic: plain}, nil),
	} {
		if fault.KindOf(err) != fault.Unavailable || !strings.Contains(fault.ToWire(err).Message, "password") {
			t.Errorf("who asks for %s is told %q: %v", what, fault.KindOf(err), err)
		}
	}
	as("second", "CONFIG", "SET", "requirepass", "first")
	w.expect(names("a", 1))
	w.detach()
}

// The rights that docs/operations.md names are enough, and one that is missing is named before
// anything is accepted for a Redis that will not take it.
func TestRightsThatAreMissingAreNamed(t *testing.T) {
	server := redistest.Start(t, redistest.Options{Config: []string{
		"user enough on >pw ~lilac:* resetchannels -@all +@read +@write +@scripting +@connection +info",
		"user noxadd on >pw ~lilac:* +@all -xadd -xtrim",
		"user noscripts on >pw ~lilac:* +@all -@scripting",
		"user elsewhere on >pw ~other:* +@all",
		"user reader on >pw %R~lilac:* +@all",
		"user noverify on >pw ~lilac:* +@all -xlen -hlen",
		"user noeval on >pw ~lilac:* +@all -eval",
	}})
	for user, want := range map[string]string{
		"noxadd":    " run XADD, XTRIM on keys that begin with lilac:",
		"noscripts": "does not let the user in bus.url do what is needed: NOPERM",
		"noverify":  " run HLEN, XLEN on keys",
		"elsewhere": "XADD",
		"reader":    " run HDEL, HSET, PEXPIRE, SADD, XADD, XTRIM on keys",
	} {
		opt := redisbus.Options{URL: "redis://" + user + ":pw@" + server.Addr, ReplyWithin: patience}
		_, _, look := redisbus.Inspect(context.Background(), opt)
		for what, err := range map[string]error{"a start": open(t, opt), "a look": look} {
			if fault.KindOf(err) != fault.Invalid || !strings.Contains(fault.ToWire(err).Message, want) {
				t.Errorf("%s as %s: %v, want a refusal that says %q", what, user, err, want)
			}
		}
	}
	if err := open(t, redisbus.Options{URL: "redis://enough:pw@" + server.Addr}); err != nil {
		t.Errorf("with all rights that are needed: %v", err)
	}
	// It is not missed as long as Redis knows the scripts.
	if err := open(t, redisbus.Options{URL: "redis://noeval:pw@" + server.Addr}); err == nil || !strings.Contains(fault.ToWire(err).Message, " run EVAL on keys") {
		t.Errorf("without EVAL: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

func TestTLS(t *testing.T) {
	server := redistest.Start(t, redistest.Options{TLS: true})
	if err := open(t, redisbus.Options{URL: server.URL(), CAFile: server.CAFile}); err != nil {
		t.Errorf("with its authority: %v", err)
	}
	if err := open(t, redisbus.Options{URL: server.URL()}); err == nil {
		t.Error("a certificate of an unknown authority was accepted")
	}
	if err := open(t, redisbus.Options{URL: strings.Replace(server.URL(), "rediss", "redis", 1), CAFile: server.CAFile}); err == nil {
		t.Error("an authority without TLS was accepted")
	}
}

// The server gets a certificate of another authority, and later its file comes here.
func TestAuthoritiesThatChangeWhileItRunsAreRead(t *testing.T) {
	before, after := redistest.Start(t, redistest.Options{TLS: true}), redistest.Start(t, redistest.Options{TLS: true})
	file := filepath.Join(t.TempDir(), "ca.pem")
	trust := func(server *redistest.Server) {
		pem, err := os.ReadFile(server.CAFile)
		if err == nil {
			err = os.WriteFile(file, pem, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	trust(before)
	proxy := faultproxy.Start(t, before.Addr)
	w := &world{t: t, server: before, dir: t.TempDir(), url: "rediss://" + proxy.Addr, caFile: file}
	w.open()
	w.attach()
	w.publish("before", 3)
	proxy.Route(after.Addr)
	before.Kill()
	w.publish("during", 3)
	until(t, "the authority is not trusted", func() bool {
		return strings.Contains(fmt.Sprint(w.bus.Healthy(context.Background())), "unknown authority")
	})
	trust(after)
	w.healthy()
	w.publish("after", 3)
	w.expect(names("before", 3, "during", 3, "after", 3))
	w.detach()
}

func TestServersThatLoseEventsAreRefused(t *testing.T) {
	server := redistest.Start(t, redistest.Options{Volatile: true})
	if err := open(t, redisbus.Options{URL: server.URL()}); fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), "appendonly yes") {
		t.Errorf("without an append-only file: %v, want a refusal that says what to do", err)
	}
	if err := open(t, redisbus.Options{URL: server.URL(), AcceptLoss: true}); err != nil {
		t.Errorf("with the loss accepted: %v", err)
	}
}

func TestServersThatEvictEventsAreRefused(t *testing.T) {
	server := redistest.Start(t, redistest.Options{Config: []string{"maxmemory 100mb", "maxmemory-policy allkeys-lru"}})
	if err := open(t, redisbus.Options{URL: server.URL()}); fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), "noeviction") {
		t.Errorf("a server that evicts: %v, want a refusal that says what to do", err)
	}
}

func TestAServerThatAnswersIsNotCalledUnreachable(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	w := newWorld(t, server, server.URL())
	w.attach()
	server.Do("CONFIG", "SET", "maxmemory", "1")
	w.publish("a", 1)
	until(t, "the trouble is told", func() bool { return w.bus.Healthy(context.Background()) != nil })
	err := w.bus.Healthy(context.Background())
	if said := fault.ToWire(err).Message; !strings.Contains(said, "cannot do its work: OOM ") || strings.Contains(said, "script") || fault.KindOf(err) != fault.Unavailable {
		t.Errorf("without memory it is said to be in trouble because %s", said)
	}
	server.Do("CONFIG", "SET", "maxmemory", "0")
	w.expect(names("a", 1))
}

// Healthy must report a server that rejects writes before an event has to wait for it.
func TestAServerThatTakesNoWritesIsNotHealthy(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	w := newWorld(t, server, server.URL())
	w.attach()
	w.healthy()
	for want, c := range map[string]struct{ begin, end []string }{
		"READONLY":   {[]string{"REPLICAOF", "127.0.0.1", "1"}, []string{"REPLICAOF", "NO", "ONE"}},
		"NOREPLICAS": {[]string{"CONFIG", "SET", "min-replicas-to-write", "1"}, []string{"CONFIG", "SET", "min-replicas-to-write", "0"}},
		"OOM":        {[]string{"CONFIG", "SET", "maxmemory", "1"}, []string{"CONFIG", "SET", "maxmemory", "0"}},
	} {
		server.Do(c.begin...)
		if err := w.bus.Healthy(context.Background()); fault.KindOf(err) != fault.Unavailable || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("its health is %v, want one that says %s", err, want)
		}
		server.Do(c.end...)
		w.healthy()
	}
	w.detach()
}

// Healthy reports settings that Open would reject, if they change while the server runs.
// It does not report those that the configuration accepts.
func TestAServerThatIsSetToLoseEventsIsNotHealthy(t *testing.T) {
	for name, accepts := range map[string]bool{"refused": false, "accepted": true} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t, redistest.Options{})
			w := &world{t: t, server: server, dir: t.TempDir(), url: server.URL(), acceptLoss: accepts}
			w.open()
			w.attach()
			w.healthy()
			for want, c := range map[string]struct {
				begin, end [][]string
				accepted   bool
			}{
				"appendonly yes": {[][]string{{"appendonly", "no"}}, [][]string{{"appendonly", "yes"}}, accepts},
				"allkeys-lru":    {[][]string{{"maxmemory", "1gb"}, {"maxmemory-policy", "allkeys-lru"}}, [][]string{{"maxmemory-policy", "noeviction"}}, false},
			} {
				for _, set := range c.begin {
					server.Do(append([]string{"CONFIG", "SET"}, set...)...)
				}
				switch err := w.bus.Healthy(context.Background()); {
				case c.accepted && err != nil:
					t.Errorf("its health is %v although the loss is accepted", err)
				case !c.accepted && (fault.KindOf(err) != fault.Unavailable || !strings.Contains(fmt.Sprint(err), want)):
					t.Errorf("its health is %v, want one that says %s", err, want)
				}
				w.publish(name+want[:3], 1) // it takes events all the same
				for _, set := range c.end {
					server.Do(append([]string{"CONFIG", "SET"}, set...)...)
				}
				w.healthy()
			}
			w.detach()
		})
	}
}

func TestTopicSurvivesEvictedMetadata(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	w := newWorld(t, server, server.URL())
	w.attach()
	w.publish("a", 3)
	w.expect(names("a", 3))
	server.Do("DEL", "lilac:m:"+string(plain), "lilac:m:"+string(bustest.Topic))
	w.publish("b", 3)
	w.expect(names("a", 3, "b", 3))
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var seen []string
	if err := w.bus.Tail(ctx, bus.Tail{Topic: plain}, func(d bus.Delivery) error {
		if seen = append(seen, d.ID); len(seen) == 6 {
			cancel()
		}
		return nil
	}); err != nil || len(seen) != 6 {
		t.Errorf("from the beginning: %v, %v; want all 6", seen, err)
	}
	if got := len(w.places(plain)); got != 6 {
		t.Errorf("%d events can be read, want 6", got)
	}
	w.detach()
}

func TestClustersAreRefused(t *testing.T) {
	_, port, err := net.SplitHostPort(freeport.Loopback(t))
	if err != nil {
		t.Fatal(err)
	}
	server := redistest.Start(t, redistest.Options{Config: []string{"cluster-enabled yes", "cluster-port " + port}})
	if err := open(t, redisbus.Options{URL: server.URL()}); fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), "Cluster") {
		t.Errorf("a cluster: %v, want a refusal by name", err)
	}
}

func TestAnotherStoreIsRefused(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	first := newWorld(t, server, server.URL())
	err := open(t, redisbus.Options{URL: server.URL()})
	if fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), first.db.StoreID()) {
		t.Errorf("another store on the same prefix: %v, want a refusal that names its owner", err)
	}
	if err := open(t, redisbus.Options{URL: server.URL(), Prefix: "other"}); err != nil {
		t.Errorf("another prefix: %v", err)
	}
	first.publish("a", 1)
	if got := len(first.places(plain)); got != 1 {
		t.Errorf("the owner has %d events, want 1", got)
	}
}

// A copy of the data directory that is started beside the original takes the
// prefix; the original stops writing instead of mixing its events in.
func TestAReplacedProcessIsPowerless(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	first := newWorld(t, server, server.URL())
	first.publish("a", 1)
	copied := t.TempDir()
	if err := os.CopyFS(copied, os.DirFS(first.dir)); err != nil {
		t.Fatal(err)
	}
	second := &world{t: t, server: server, dir: copied, url: server.URL()}
	second.open()
	until(t, "the first one is refused", func() bool {
		err := first.bus.Healthy(context.Background())
		return err != nil && strings.Contains(err.Error(), "took over")
	})
	before := len(second.places(plain))
	first.publish("b", 3) // kept in its own database
	if after := len(second.places(plain)); after != before {
		t.Errorf("the replaced process wrote %d events", after-before)
	}
}

// fakeServer speaks enough of the protocol to say that it is too old.
func fakeServer(t *testing.T, info string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			answer(conn, info)
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return l.Addr().String()
}

func answer(conn net.Conn, info string) {
	defer conn.Close()
	in := bufio.NewScanner(conn)
	args := 0
	var words []string
	for in.Scan() {
		switch line := in.Text(); {
		case strings.HasPrefix(line, "*"):
			fmt.Sscanf(line, "*%d", &args)
			words = nil
		case !strings.HasPrefix(line, "$"):
			if words = append(words, line); len(words) < args {
				continue
			}
			switch strings.ToUpper(words[0]) {
			case "HELLO":
				fmt.Fprint(conn, "-ERR unknown command 'HELLO'\r\n")
			case "INFO":
				fmt.Fprintf(conn, "$%d\r\n%s\r\n", len(info), info)
			default:
				fmt.Fprint(conn, "+OK\r\n")
			}
		}
	}
}

func TestOldServersAreRefused(t *testing.T) {
	addr := fakeServer(t, "redis_version:6.2.14\r\naof_enabled:1\r\n")
	if err := open(t, redisbus.Options{URL: "redis://" + addr}); fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), "6.2.14") {
		t.Errorf("Redis 6: %v, want a refusal that names the version", err)
	}
}
