package egress

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"lilac/internal/foundation/fault"
)

// thief is a service of this machine that counts the requests and remembers their tokens.
type thief struct {
	*httptest.Server
	requests atomic.Int32
	token    atomic.Value
}

func newThief(t testing.TB) *thief {
	t.Helper()
	out := &thief{}
	out.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out.requests.Add(1)
		out.token.Store(r.Header.Get("Authorization"))
		_, _ = io.WriteString(w, "secret")
	}))
	t.Cleanup(out.Close)
	return out
}

func serviceOf(t testing.TB, address string, change func(*ServiceOptions)) *http.Client {
	t.Helper()
	origin, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	o := ServiceOptions{Origin: origin, Headers: map[string]string{"Authorization": "Bearer canary"}, BodyBytes: 1 << 10}
	if change != nil {
		change(&o)
	}
	client := NewService(o)
	t.Cleanup(client.CloseIdleConnections)
	return client
}

// A service gets its header, and can send the client nowhere else: not by a redirect, and
// not by a name that points to a private address. The control is a client without the
// protection.
func TestAServiceReachesOnlyItself(t *testing.T) {
	for _, unguarded := range []bool{false, true} {
		other := newThief(t)
		var path atomic.Value
		path.Store("")
		honest := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/away":
				http.Redirect(w, r, other.URL+"/steal", http.StatusTemporaryRedirect)
			case "/inside":
				http.Redirect(w, r, "/here", http.StatusTemporaryRedirect)
			default:
				path.Store(r.URL.Path + " " + r.Header.Get("Authorization"))
			}
		}))
		t.Cleanup(honest.Close)
		guard := func(o *ServiceOptions) { o.unguarded = unguarded }
		client := serviceOf(t, honest.URL, guard)
		get := func(client *http.Client, address string) error {
			t.Helper()
			response, err := client.Get(address)
			if err == nil {
				_ = response.Body.Close()
			}
			return err
		}
		if err := get(client, honest.URL+"/inside"); err != nil || path.Load() != "/here Bearer canary" {
			t.Errorf("a redirect within the service: %v, %v", err, path.Load())
		}
		_, away := get(client, honest.URL+"/away"), get(client, other.URL+"/direct")
		private := serviceOf(t, "http://mcp.example.org:"+port(t, other.URL), func(o *ServiceOptions) {
			guard(o)
			o.Resolve = func(context.Context, string) ([]netip.Addr, error) {
				return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
			}
		})
		inner := get(private, "http://mcp.example.org:"+port(t, other.URL)+"/inner")
		if unguarded {
			if other.requests.Load() != 3 || other.token.Load() != "Bearer canary" {
				t.Errorf("the control: %d requests, %v", other.requests.Load(), other.token.Load())
			}
			continue
		}
		if other.requests.Load() != 0 {
			t.Errorf("another service got %d requests, with the token %v", other.requests.Load(), other.token.Load())
		}
		if fault.KindOf(away) != fault.Denied || fault.KindOf(inner) != fault.Denied {
			t.Errorf("the refusals are %v and %v", away, inner)
		}
	}
}

func port(t testing.TB, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u.Port()
}

func TestAResponseOfAServiceIsBounded(t *testing.T) {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", r.URL.Query().Get("type"))
		_, _ = io.WriteString(w, strings.Repeat("x", 1<<20))
	}))
	t.Cleanup(service.Close)
	read := int64(0)
	stop := errors.New("enough")
	client := serviceOf(t, service.URL, func(o *ServiceOptions) {
		o.Read = func(n int) error {
			if read += int64(n); read > 1<<18 {
				return stop
			}
			return nil
		}
	})
	for kind, want := range map[string]error{"application/json": errBody, "text/event-stream": stop} {
		read = 0
		response, err := client.Get(service.URL + "?type=" + url.QueryEscape(kind))
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if !errors.Is(err, want) || len(data) > 1<<18 {
			t.Errorf("%s: read %d bytes, %v", kind, len(data), err)
		}
	}
}
