package forward_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"lilac/internal/serve/forward"
	"lilac/internal/serve/origin"
	"lilac/internal/testkit/effort"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pair is a waiting node in front of an active one.
type pair struct {
	*forward.Forwarder
	waiting, active *httptest.Server
}

func newPair(t *testing.T, active http.HandlerFunc, change ...func(*forward.Options)) *pair {
	t.Helper()
	opt := forward.Options{KeyHeader: "Node-Key", Key: "the key", Patience: 10 * time.Second}
	for _, f := range change {
		f(&opt)
	}
	p := &pair{Forwarder: forward.New(opt), active: httptest.NewServer(active)}
	p.SetActive(p.active.URL)
	p.waiting = httptest.NewServer(p.Handler(""))
	t.Cleanup(func() {
		p.waiting.Close()
		p.Close()
		p.active.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	return p
}

func send(t *testing.T, method, url, body string, header ...string) (status int, text string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(data)
}

func TestARequestReachesTheActiveNodeAsItIs(t *testing.T) {
	p := newPair(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.WriteHeader(http.StatusTeapot)
		fmt.Fprintf(w, "%s %s host=%s auth=%s key=%s for=%q proto=%q body=%s", r.Method, r.URL, r.Host, r.Header.Get("Authorization"), r.Header.Get("Node-Key"),
			r.Header.Get("X-Forwarded-For"), r.Header.Get("X-Forwarded-Proto"), body)
	})
	host := strings.TrimPrefix(p.waiting.URL, "http://")
	status, text := send(t, "POST", p.waiting.URL+"/a%2Fb?c=d", "hello", "Authorization", "Bearer x", "Node-Key", "guessed", "X-Forwarded-For", "1.2.3.4", "X-Forwarded-Proto", "https")
	want := fmt.Sprintf(`POST /a%%2Fb?c=d host=%s auth=Bearer x key=the key for="" proto="" body=hello`, host)
	if status != http.StatusTeapot || text != want {
		t.Errorf("%d %s\nwant %s", status, text, want)
	}
}

// The scheme of the client passes through a trusted proxy and a waiting node.
func TestTheSchemeOfTheClientIsPassedOn(t *testing.T) {
	active := func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, origin.Secure(origin.Believe(r))) }
	trusting := newPair(t, active, func(o *forward.Options) { o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} })
	for _, c := range []struct {
		p    *pair
		want string
	}{{trusting, "true"}, {newPair(t, active), "false"}} {
		if _, text := send(t, "GET", c.p.waiting.URL, "", "X-Forwarded-Proto", "https"); text != c.want {
			t.Errorf("secure: %s, want %s", text, c.want)
		}
	}
}

func TestPathsBelowAPrefix(t *testing.T) {
	p := newPair(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.URL.Path) })
	local := httptest.NewServer(p.Handler("/node/v1/tools"))
	defer local.Close()
	if _, text := send(t, "GET", local.URL+"/list", ""); text != "/node/v1/tools/list" {
		t.Errorf("the path is %s", text)
	}
}

// A stream arrives while it is written.
func TestAStreamIsPassedOnAtOnce(t *testing.T) {
	more := make(chan struct{})
	p := newPair(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintln(w, "one")
		_ = http.NewResponseController(w).Flush()
		<-more
		fmt.Fprintln(w, "two")
	})
	res, err := http.Get(p.waiting.URL + "/events")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	if !lines.Scan() || lines.Text() != "one" {
		t.Errorf("first %q", lines.Text())
	}
	close(more)
	if !lines.Scan() || lines.Text() != "two" {
		t.Errorf("then %q", lines.Text())
	}
}

// While nobody is active, requests wait.
func TestRequestsWaitForAnActiveNode(t *testing.T) {
	effort.SkipSlow(t)
	p := newPair(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	for name, address := range map[string]string{"nobody is known": "", "nobody listens": "http://127.0.0.1:1"} {
		p.SetActive(address)
		if p.Active() != address {
			t.Errorf("the active node is %q", p.Active())
		}
		if err := p.Ready(t.Context()); err == nil {
			t.Errorf("%s: it is ready", name)
		}
		go func() {
			time.Sleep(300 * time.Millisecond) // the request waits meanwhile, or comes later: both are right
			p.SetActive(p.active.URL)
		}()
		if status, text := send(t, "POST", p.waiting.URL, "hello"); status != http.StatusOK || text != "hello" {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
	if err := p.Ready(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestWithoutAnActiveNodeARequestIsRefusedInTheEnd(t *testing.T) {
	p := newPair(t, nil, func(o *forward.Options) { o.Patience = time.Millisecond })
	p.SetActive("http://127.0.0.1:1")
	if status, text := send(t, "POST", p.waiting.URL, "hello"); status != http.StatusServiceUnavailable || !strings.Contains(text, `"code":"standby"`) {
		t.Errorf("%d %s", status, text)
	}
}

// A node refuses the requests of other nodes until it is the active one. Such a request waits, also one
// that is sent only once.
func TestARequestThatAWaitingNodeRefusesWaits(t *testing.T) {
	var calls atomic.Int64
	p := newPair(t, func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1) == 1 {
			w.Header().Set(forward.WaitsHeader, "1")
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = io.Copy(w, r.Body)
	})
	for _, method := range []string{"POST", "DELETE", "PUT"} {
		calls.Store(0)
		if status, text := send(t, method, p.waiting.URL, "hello"); status != http.StatusOK || text != "hello" {
			t.Errorf("%s: %d %s after %d calls", method, status, text, calls.Load())
		}
	}
	if status, _ := send(t, "GET", p.waiting.URL, ""); status != http.StatusOK {
		t.Errorf("GET: %d", status)
	}
}

// A node that ends while requests wait there refuses them, so that their clients know.
func TestANodeThatEndsRefusesTheRequestsThatWait(t *testing.T) {
	waits := make(chan struct{}, 1)
	p := newPair(t, nil, func(o *forward.Options) { o.Patience = time.Hour })
	gone := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		waits <- struct{}{}
		panic(http.ErrAbortHandler) // the read is repeated
	}))
	defer gone.Close()
	p.SetActive(gone.URL)
	go func() {
		<-waits
		p.Leave()
	}()
	if status, _ := send(t, "GET", p.waiting.URL, ""); status != http.StatusServiceUnavailable {
		t.Errorf("the request that waits gets %d", status)
	}
	p.SetActive("")
	if status, text := send(t, "POST", p.waiting.URL, "hello"); status != http.StatusServiceUnavailable || !strings.Contains(text, `"code":"standby"`) {
		t.Errorf("a later request gets %d %s", status, text)
	}
}

// The active node dies while it handles a request. The request is sent again only if that cannot do
// anything twice.
func TestALostRequestIsRepeatedOnlyIfThatIsSafe(t *testing.T) {
	large := strings.Repeat("x", 300<<10)
	for name, c := range map[string]struct {
		method, body string
		header       []string
		repeated     bool
	}{
		"a read":                     {"GET", "", nil, true},
		"with a key":                 {"POST", "hello", []string{"Idempotency-Key", "k"}, true},
		"without a key":              {"POST", "hello", nil, false},
		"a deletion":                 {"DELETE", "", nil, false},
		"with a key, but very large": {"POST", large, []string{"Idempotency-Key", "k"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int64
			p := newPair(t, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				if calls.Add(1) == 1 {
					panic(http.ErrAbortHandler) // cuts the connection
				}
				fmt.Fprint(w, len(body))
			})
			status, text := send(t, c.method, p.waiting.URL, c.body, c.header...)
			switch {
			case c.repeated && (status != http.StatusOK || text != fmt.Sprint(len(c.body)) || calls.Load() != 2):
				t.Errorf("%d %s after %d calls, want that it is repeated with its body", status, text, calls.Load())
			case !c.repeated && (status != http.StatusServiceUnavailable || !strings.Contains(text, "active_node_lost") || calls.Load() != 1):
				t.Errorf("%d %s after %d calls, want that the client decides", status, text, calls.Load())
			}
		})
	}
}

// The active node dies before it takes a request, which is then sent again, however large. After it has
// asked for the body, it may have handled the request, also if it has read nothing yet.
func TestARequestThatWasNotTakenIsSentAgain(t *testing.T) {
	large := strings.Repeat("x", 300<<10)
	for name, takes := range map[string]bool{"taken": true, "not taken": false} {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int64
			p := newPair(t, func(w http.ResponseWriter, r *http.Request) {
				first := calls.Add(1) == 1
				if takes || !first {
					forward.AskForBody(r)
				}
				if first {
					panic(http.ErrAbortHandler) // cuts the connection
				}
				body, err := io.ReadAll(r.Body)
				fmt.Fprint(w, len(body), err)
			})
			status, text := send(t, "POST", p.waiting.URL, large)
			switch {
			case !takes && (status != http.StatusOK || text != "307200 <nil>"):
				t.Errorf("%d %s, want that it is sent again with its body", status, text)
			case takes && (status != http.StatusServiceUnavailable || !strings.Contains(text, "active_node_lost") || calls.Load() != 1):
				t.Errorf("%d %s after %d calls, want that the client decides", status, text, calls.Load())
			}
		})
	}
}

func TestANodeThatIsNotReadyIsNoGoodTarget(t *testing.T) {
	p := newPair(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	if err := p.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "not ready") {
		t.Errorf("%v", err)
	}
}
