package egress

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lilac/internal/foundation/fault"
)

// dials records which addresses are connected to, and lets none succeed.
type dials struct {
	mu   sync.Mutex
	seen []string
}

func (d *dials) dial(_ context.Context, _, address string) (net.Conn, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen = append(d.seen, address)
	return nil, errors.New("nothing is there")
}

func (d *dials) all() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.seen
}

func at(addrs ...string) func(context.Context, string) ([]netip.Addr, error) {
	return func(context.Context, string) (out []netip.Addr, err error) {
		for _, a := range addrs {
			out = append(out, netip.MustParseAddr(a))
		}
		return out, nil
	}
}

// S7: an allowed host whose name points inside is never connected to.
func TestFileOnAnAddressInsideIsNotConnectedTo(t *testing.T) {
	for _, addr := range []string{
		"0.0.0.0", "10.1.2.3", "100.64.0.1", "127.0.0.1", "169.254.169.254", "172.16.0.1", "192.0.0.1", "192.0.0.170", "192.168.1.1",
		"198.18.0.1", "198.19.255.255", "224.0.0.1", "240.0.0.1", "255.255.255.255",
		"::", "::1", "::127.0.0.1", "::8.8.8.8", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::1", "2001::1", "2002:7f00:1::1", "fc00::1", "fe80::1", "fec0::1", "ff02::1",
	} {
		for _, unguarded := range []bool{false, true} {
			var d dials
			f := NewFetcher(FetchOptions{Hosts: []string{"cdn.test"}, Resolve: at(addr), Dial: d.dial, unguarded: unguarded})
			_, err := f.Fetch(t.Context(), "https://cdn.test/a.png", 100)
			if !unguarded && (len(d.all()) != 0 || fault.KindOf(err) != fault.Denied) {
				t.Errorf("%s: connected to %q: %v", addr, d.all(), err)
			}
			if unguarded && len(d.all()) != 1 {
				t.Errorf("control: %s is not connected to without the guard: %v", addr, err)
			}
		}
	}
	var d dials
	f := NewFetcher(FetchOptions{Hosts: []string{"cdn.test"}, Resolve: at("1.1.1.1"), Dial: d.dial})
	// A signed address is for nobody who reads the error.
	if _, err := f.Fetch(t.Context(), "https://cdn.test/a.png?hm=signature", 100); len(d.all()) != 1 || fault.KindOf(err) != fault.Unavailable || strings.Contains(err.Error(), "signature") {
		t.Errorf("control: a public address: connected to %q: %v", d.all(), err)
	}
}

func TestOnlyListedHostsAreAsked(t *testing.T) {
	var d dials
	f := NewFetcher(FetchOptions{Hosts: []string{"cdn.test", "127.0.0.1:8081"}, Resolve: at("1.1.1.1"), Dial: d.dial})
	for _, address := range []string{
		"http://cdn.test/x", "https://cdn.test:8443/x", "https://cdn.test.evil.org/x", "https://evil.org/cdn.test", "https://u@cdn.test/x", "https://u:p@127.0.0.1:8081/x",
		"https://127.0.0.1/x", "http://127.0.0.1:8082/x", "http://2130706433:8081/x", "http://localhost:8081/x", "file:///etc/passwd", "ftp://cdn.test/x", "//cdn.test/x", "", "https://", "%",
	} {
		if _, err := f.Fetch(t.Context(), address, 100); fault.KindOf(err) != fault.Denied || len(d.all()) > 0 {
			t.Fatalf("%q: connected to %q: %v", address, d.all(), err)
		}
	}
	for _, address := range []string{"https://cdn.test/x", "https://CDN.test/x", "http://127.0.0.1:8081/x"} {
		before := len(d.all())
		if _, err := f.Fetch(t.Context(), address, 100); len(d.all()) != before+1 {
			t.Errorf("control: %q is not asked: %v", address, err)
		}
	}
}

func TestNameThatFlipsIsLookedUpOnceForEachConnection(t *testing.T) {
	for name, answers := range map[string][][]string{
		"from one look-up to the next": {{"1.1.1.1"}, {"127.0.0.1"}},
		"within one answer":            {{"1.1.1.1", "127.0.0.1", "::1"}},
	} {
		var d dials
		var asked atomic.Int32
		f := NewFetcher(FetchOptions{Hosts: []string{"cdn.test"}, Dial: d.dial, Resolve: func(ctx context.Context, host string) ([]netip.Addr, error) {
			n := int(asked.Add(1)) - 1
			return at(answers[min(n, len(answers)-1)]...)(ctx, host)
		}})
		for range 3 {
			_, _ = f.Fetch(t.Context(), "https://cdn.test/x", 100) // none succeeds
		}
		for _, address := range d.all() {
			if address != "1.1.1.1:443" {
				t.Errorf("%s: connected to %s", name, address)
			}
		}
		if len(d.all()) == 0 || asked.Load() != 3 {
			t.Errorf("%s: connected %d times after %d look-ups", name, len(d.all()), asked.Load())
		}
	}
}

func TestRedirectsAreCheckedLikeFirstAddresses(t *testing.T) {
	var inside atomic.Int32
	secret := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		inside.Add(1)
		fmt.Fprint(w, "the credentials of the cloud")
	}))
	defer secret.Close()
	where := ""
	cdn := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/file":
			fmt.Fprint(w, "file")
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		default:
			http.Redirect(w, r, where, http.StatusFound)
		}
	}))
	defer cdn.Close()
	hosts := []string{strings.TrimPrefix(cdn.URL, "http://"), "cdn.test"}
	f := NewFetcher(FetchOptions{Hosts: hosts, Resolve: at("127.0.0.1")})
	for _, to := range []string{
		secret.URL, strings.Replace(secret.URL, "127.0.0.1", "localhost", 1), "https://cdn.test/x", "https://169.254.169.254/latest/meta-data", "file:///etc/passwd", "http://u:p@" + hosts[0] + "/file",
	} {
		where = to
		if got, err := f.Fetch(t.Context(), cdn.URL, 100); fault.KindOf(err) != fault.Denied || inside.Load() != 0 {
			t.Errorf("%s: %q, %v; %d connections", to, got.Data, err, inside.Load())
		}
	}
	if _, err := f.Fetch(t.Context(), cdn.URL+"/loop", 100); fault.KindOf(err) != fault.Denied {
		t.Errorf("a loop: %v", err)
	}
	where = "/file"
	if got, err := f.Fetch(t.Context(), cdn.URL, 100); err != nil || string(got.Data) != "file" {
		t.Errorf("control: a move within the host: %q, %v", got.Data, err)
	}
	where = secret.URL
	open := NewFetcher(FetchOptions{Hosts: hosts, unguarded: true})
	if _, err := open.Fetch(t.Context(), cdn.URL, 100); err != nil || inside.Load() != 1 {
		t.Errorf("control: without the guard it is not reached: %v", err)
	}
}

// tallied counts what is read from a connection.
type tallied struct {
	net.Conn
	read *atomic.Int64
}

func (m tallied) Read(p []byte) (int, error) {
	n, err := m.Conn.Read(p)
	m.read.Add(int64(n))
	return n, err
}

func TestNoMoreIsReadThanWasAskedForWhateverTheHostSays(t *testing.T) {
	const most = 100 << 10
	zeros := make([]byte, 64<<10)
	endless := func(w io.Writer) {
		for {
			if _, err := w.Write(zeros); err != nil {
				return
			}
		}
	}
	var bomb bytes.Buffer
	packed := gzip.NewWriter(&bomb)
	for range 128 {
		if _, err := packed.Write(zeros); err != nil {
			t.Fatal(err)
		}
	}
	if err := packed.Close(); err != nil {
		t.Fatal(err)
	}
	raw := func(w http.ResponseWriter, head string, body func(io.Writer)) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprint(conn, head)
		body(conn)
	}
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		kind   fault.Kind
		size   int
	}{
		"as much as is allowed":      {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, most)) }, "", most},
		"one byte more":              {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, most+1)) }, fault.TooLarge, 0},
		"without a length, for ever": {func(w http.ResponseWriter, _ *http.Request) { endless(w) }, fault.TooLarge, 0},
		"a length that is too large": {func(w http.ResponseWriter, _ *http.Request) {
			raw(w, "HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\n", endless)
		}, fault.TooLarge, 0},
		"a length that is too small": {func(w http.ResponseWriter, _ *http.Request) {
			raw(w, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n", endless)
		}, "", 10},
		"a length that is not kept": {func(w http.ResponseWriter, _ *http.Request) {
			raw(w, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", func(w io.Writer) { fmt.Fprint(w, "short") })
		}, fault.Unavailable, 0},
		"a header without an end": {func(w http.ResponseWriter, _ *http.Request) { raw(w, "HTTP/1.1 200 OK\r\nX: ", endless) }, fault.Unavailable, 0},
		"a bomb": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(bomb.Bytes())
		}, fault.Denied, 0},
		"a bomb that does not say so": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(bomb.Bytes()) }, "", bomb.Len()},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(c.answer)
			defer server.Close()
			var read atomic.Int64
			f := NewFetcher(FetchOptions{
				Hosts: []string{strings.TrimPrefix(server.URL, "http://")},
				Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
					conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
					return tallied{conn, &read}, err
				},
			})
			got, err := f.Fetch(t.Context(), server.URL, most)
			if fault.KindOf(err) != c.kind && err != nil || (err == nil) != (c.kind == "") || len(got.Data) != c.size {
				t.Errorf("%d bytes, %v", len(got.Data), err)
			}
			if n := read.Load(); n > most+64<<10 {
				t.Errorf("%d bytes were read", n)
			}
		})
	}
}

func TestHostThatIsSlowIsGivenUp(t *testing.T) {
	stop := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/drip" {
			_, _ = w.Write([]byte("a"))
			_ = http.NewResponseController(w).Flush()
		}
		select {
		case <-stop:
		case <-r.Context().Done():
		}
	}))
	defer server.Close()
	defer close(stop)
	f := NewFetcher(FetchOptions{Hosts: []string{strings.TrimPrefix(server.URL, "http://")}, Time: 100 * time.Millisecond})
	for _, path := range []string{"/", "/drip"} {
		if _, err := f.Fetch(t.Context(), server.URL+path, 100); fault.KindOf(err) != fault.Timeout {
			t.Errorf("%s: %v", path, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.Fetch(ctx, server.URL, 100); !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
}

func TestListsOfNamesHaveWildcards(t *testing.T) {
	for _, c := range []struct {
		listed, address string
		want            bool
	}{
		{"*.wiki.test", "https://en.wiki.test/x", true},
		{"*.wiki.test", "https://a.en.wiki.test/x", true},
		{"*.wiki.test", "https://wiki.test/x", false},
		{"*.wiki.test", "https://evilwiki.test/x", false},
		{"*.wiki.test", "https://en.wiki.test.evil.org/x", false},
		{"*", "https://any.test/x", true},
		{"*", "http://any.test/x", false},
		{"*", "https://any.test:8443/x", false},
		{"*", "https://1.1.1.1/x", false},
		{"*", "https://[2606:4700:4700::1111]/x", false},
		{"*", "https://u@any.test/x", false},
	} {
		u, err := url.Parse(c.address)
		if err != nil {
			t.Fatal(err)
		}
		if got := NewFetcher(FetchOptions{Hosts: []string{c.listed}}).Allows(u); got != c.want {
			t.Errorf("%s allows %s: %v", c.listed, c.address, got)
		}
	}
}
