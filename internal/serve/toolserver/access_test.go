package toolserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"lilac/internal/foundation/fault"
	"lilac/internal/testkit/effort"
)

// echo returns a callable that returns the session of its caller.
func echo(id string) Callable { return echoOf[struct{}](id) }

// echoOf is echo with the input In.
func echoOf[In any](id string) Callable {
	return NewCallable(Callable{ID: id, Summary: "echoes"}, func(_ context.Context, c Caller, _ In) (any, error) { return c.SessionID, nil })
}

func newServer(t testing.TB, o Options) *Server {
	t.Helper()
	if o.Alive == nil {
		o.Alive = func(Grant) bool { return true }
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// mint makes a token that dies with the test.
func mint(t testing.TB, s *Server, callables ...string) string {
	t.Helper()
	token, revoke, err := s.Mint(Grant{RequestID: "r", SessionID: "s", Callables: callables})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(revoke)
	return token
}

type dim struct {
	value string
	good  bool
}

var (
	hosts = []dim{
		{"localhost", true},
		{"127.0.0.1:7421", true},
		{"[::1]:7421", true},
		{"evil.example", false},
		{"localhost.evil.example", false},
		{"0.0.0.0:7421", false},
		{"192.168.1.4", false},
		{"", false},
	}
	origins  = []dim{{"", true}, {"own", true}, {"null", false}, {"http://evil.example", false}, {"http://127.0.0.1:3000", false}}
	fetches  = []dim{{"", true}, {"same-origin", true}, {"none", true}, {"same-site", false}, {"cross-site", false}}
	auths    = []dim{{"Bearer ", true}, {"", false}, {"Basic ", false}, {"Bearer x", false}, {"query", false}, {"cookie", false}}
	routes   = []string{"GET /list", "GET /help/a.b", "POST /call", "PUT /call", "DELETE /list", "OPTIONS /call", "GET /nothing"}
	upgrades = []string{"", "websocket"}
)

func matrixRequest(host, origin, fetch, auth, route, upgrade, token string) *http.Request {
	method, path, _ := strings.Cut(route, " ")
	r := httptest.NewRequest(method, path, strings.NewReader(`{"callableId":"a.b"}`))
	r.Host = host
	if origin == "own" {
		origin = "http://" + host
	}
	for name, value := range map[string]string{"Origin": origin, "Sec-Fetch-Site": fetch, "Upgrade": upgrade} {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	if upgrade != "" {
		r.Header.Set("Connection", "Upgrade")
	}
	switch auth {
	case "query":
		r.URL.RawQuery = "token=" + token
	case "cookie":
		r.AddCookie(&http.Cookie{Name: "lilac_token", Value: token})
	case "":
	default:
		r.Header.Set("Authorization", auth+token)
	}
	return r
}

// matrix sends every combination and counts those that were wrongly let in and
// wrongly refused.
func matrix(answer func(*http.Request) (status int), token string, routes, upgrades []string) (all, in, out int) {
	for _, host := range hosts {
		for _, origin := range origins {
			for _, fetch := range fetches {
				for _, auth := range auths {
					for _, route := range routes {
						for _, upgrade := range upgrades {
							status := answer(matrixRequest(host.value, origin.value, fetch.value, auth.value, route, upgrade, token))
							refused := status == http.StatusForbidden || status == http.StatusUnauthorized
							may := host.good && origin.good && fetch.good && auth.good
							all++
							switch {
							case may && refused:
								out++
							case !may && !refused:
								in++
							}
						}
					}
				}
			}
		}
	}
	return all, in, out
}

// inProcess answers without a network.
func inProcess(s *Server) func(*http.Request) int {
	h := s.Handler()
	return func(r *http.Request) int {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
}

// overTCP answers on the loopback address that the server listens on.
func overTCP(t *testing.T, s *Server) func(*http.Request) int {
	e, err := Listen(t.Context(), shortDir(t), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- e.Serve(s.Handler(), slog.New(slog.DiscardHandler)) }()
	transport := &http.Transport{}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		if err := errors.Join(e.Close(), <-served); err != nil {
			t.Error(err)
		}
	})
	return func(r *http.Request) int {
		host := r.Host
		if r.Host = host; host == "" {
			r.Host = "nobody.invalid" // a client of HTTP/1.1 always names a host
		}
		r.RequestURI, r.URL.Scheme, r.URL.Host = "", "http", e.Addr
		res, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		_, _ = io.Copy(io.Discard, res.Body)
		return res.StatusCode
	}
}

// shortDir is a directory whose path leaves room for a socket's name.
func shortDir(t *testing.T) string {
	dir, err := os.MkdirTemp("", "ts")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func TestOnlyCommandsAndOperatorsAreLetIn(t *testing.T) {
	effort.SkipSlow(t)
	build := func(o Options) (s *Server, operator string) {
		o.Callables = []Callable{echo("a.b")}
		o.Operators = &Operators{DB: openDB(t), Table: &operatorTable{tokens: map[string]OperatorToken{}}}
		s = newServer(t, o)
		operator, err := o.Operators.Create(t.Context(), "laptop", []string{"*"}, "")
		if err != nil {
			t.Fatal(err)
		}
		return s, operator
	}
	s, operator := build(Options{})
	open, openOperator := build(Options{unchecked: true})
	few := []string{"GET /list", "POST /call"}
	for _, c := range []struct {
		name             string
		answer, control  func(*http.Request) int
		token, elsewhere string
		routes, upgrades []string
	}{
		{"a command", inProcess(s), inProcess(open), mint(t, s, "*"), mint(t, open, "*"), routes, upgrades},
		{"an operator", inProcess(s), inProcess(open), operator, openOperator, few, []string{""}},
		{"an operator over TCP", overTCP(t, s), overTCP(t, open), operator, openOperator, few, []string{""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if all, in, out := matrix(c.answer, c.token, c.routes, c.upgrades); in != 0 || out != 0 {
				t.Errorf("of %d combinations %d were wrongly let in and %d wrongly refused", all, in, out)
			}
			// Control: the matrix finds what the checks keep out.
			if _, in, _ := matrix(c.control, c.elsewhere, c.routes, c.upgrades); in == 0 {
				t.Error("with the checks off nothing was wrongly let in: the matrix shows nothing")
			}
		})
	}
}

func TestNoAddressIsListenedOnThatOthersCanReach(t *testing.T) {
	for _, addr := range []string{"0.0.0.0:0", ":0", "[::]:0", "192.0.2.1:0", "example.org:0", "127.0.0.1"} {
		e, err := Listen(t.Context(), shortDir(t), addr)
		if fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s: %v", addr, err)
		}
		if e != nil {
			_ = e.Close()
		}
	}
}

// send makes a call and returns the status and the answer.
func send(h http.Handler, token, callable, input string, headers ...string) (int, string) {
	r := httptest.NewRequest("POST", "http://localhost/call", strings.NewReader(fmt.Sprintf(`{"callableId":%q,"input":%s}`, callable, input)))
	r.Header.Set("Authorization", "Bearer "+token)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, strings.TrimSpace(w.Body.String())
}

func TestListAndHelpShowOnlyWhatTheTokenAllows(t *testing.T) {
	s := newServer(t, Options{Callables: []Callable{echo("a.b"), echo("a.c"), echo("d")}})
	token := mint(t, s, "a.*")
	get := func(path string) (int, string) {
		r := httptest.NewRequest("GET", "http://localhost"+path, nil)
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	w := httptest.NewRecorder() // whether it lives is no secret
	s.Handler().ServeHTTP(w, httptest.NewRequest("GET", "http://localhost/healthz", nil))
	if w.Code != http.StatusOK {
		t.Errorf("/healthz: %d %s", w.Code, w.Body)
	}
	if code, body := get("/list"); code != http.StatusOK || !strings.Contains(body, "a.b") || !strings.Contains(body, "a.c") || strings.Contains(body, `"d"`) {
		t.Errorf("%d %s", code, body)
	}
	if code, body := get("/help/a.b"); code != http.StatusOK || !strings.Contains(body, `"input"`) {
		t.Errorf("%d %s", code, body)
	}
	if code, _ := get("/help/d"); code != http.StatusForbidden {
		t.Errorf("help of what is not allowed: %d", code)
	}
	if code, body := get("/help/a.bb"); code != http.StatusNotFound || !strings.Contains(body, "Did you mean a.b or a.c") {
		t.Errorf("an unknown callable: %d %s", code, body)
	}
}

func TestTheSocketIsPrivateAndGoesWithTheServer(t *testing.T) {
	e, err := Listen(t.Context(), shortDir(t), "")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- e.Serve(newServer(t, Options{}).Handler(), slog.New(slog.DiscardHandler)) }()
	if info, err := os.Stat(e.Socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%s: %v, %v", e.Socket, info, err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(e.Socket); !os.IsNotExist(err) {
		t.Errorf("the socket is left: %v", err)
	}
	if err := e.Close(); err != nil {
		t.Errorf("closed again: %v", err)
	}
}

// A command that opens connections without end takes no descriptor that the
// rest of the program needs; who is in stays.
func TestConnectionsToTheSocketAreBounded(t *testing.T) {
	e, err := Listen(t.Context(), shortDir(t), "")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- e.Serve(newServer(t, Options{}).Handler(), slog.New(slog.DiscardHandler)) }()
	t.Cleanup(func() {
		if err := errors.Join(e.Close(), <-served); err != nil {
			t.Error(err)
		}
	})
	var conns []net.Conn
	for range maxConnections + 1 {
		conn, err := net.Dial("unix", e.Socket)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conns = append(conns, conn)
	}
	ask := func(conn net.Conn) string {
		_, _ = io.WriteString(conn, "GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n") // it may be closed already
		answer, _ := io.ReadAll(conn)
		return string(answer)
	}
	if got := ask(conns[maxConnections]); got != "" {
		t.Errorf("one more than may be got the answer %q", got)
	}
	if got := ask(conns[0]); !strings.HasPrefix(got, "HTTP/1.0 200") {
		t.Errorf("the first got the answer %q", got)
	}
}
