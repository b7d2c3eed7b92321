package e2e_test

import (
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"lilac/internal/testkit/e2e"
)

// shears is a proxy that cuts connections at any byte, in either direction.
type shears struct {
	addr string
	to   string

	mu    sync.Mutex // guards the fields below
	rnd   *rand.Rand
	calm  bool
	open  map[net.Conn]bool
	ended bool
}

func newShears(t *testing.T, to string, seed uint64) *shears {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &shears{addr: l.Addr().String(), to: to, rnd: rand.New(rand.NewPCG(seed, 5)), open: map[net.Conn]bool{}}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { s.serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		s.mu.Lock()
		s.ended = true
		for c := range s.open {
			_ = c.Close()
		}
		s.mu.Unlock()
		wg.Wait()
	})
	return s
}

// lets returns how many bytes may pass in each direction before the connection is cut; 0 means
// all.
func (s *shears) lets() (up, down int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calm {
		return 0, 0
	}
	switch s.rnd.IntN(8) {
	case 0:
		return 1 + s.rnd.Int64N(600), 0
	case 1, 2, 3, 4:
		return 0, 1 + s.rnd.Int64N(12000)
	}
	return 0, 0
}

func (s *shears) keep(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[c] = true
	return !s.ended
}

func (s *shears) drop(c net.Conn) {
	_ = c.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
}

func (s *shears) serve(near net.Conn) {
	defer s.drop(near)
	far, err := net.Dial("tcp", s.to)
	if err != nil {
		return
	}
	defer s.drop(far)
	if !s.keep(near) || !s.keep(far) {
		return
	}
	up, down := s.lets()
	var wg sync.WaitGroup
	wg.Go(func() { pour(far, near, up) })
	pour(near, far, down)
	_, _ = near.Close(), far.Close()
	wg.Wait()
}

// pour copies at most the given number of bytes, or all, and closes both connections.
func pour(to, from net.Conn, most int64) {
	var in io.Reader = from
	if most > 0 {
		in = io.LimitReader(from, most)
	}
	_, _ = io.Copy(to, in)
	_, _ = to.Close(), from.Close()
}

// looks makes GET requests for existing and for missing resources.
func (c *patrons) looks(rnd *rand.Rand, talk string) {
	there := []string{
		"/status", "/settings", "/rules", "/sources", "/tasks", "/workflows", "/dlq", "/bus/groups", "/tools/tokens", "/tools/calls", "/openapi.json",
		"/bus/env?limit=3", "/bus/evt.request?limit=3", "/requests?limit=2", "/healthz",
	}
	for range 3 {
		c.expect(c.call(rnd, "GET", pick(rnd, there...), nil), "", "look", http.StatusOK)
	}
	c.expect(c.call(rnd, "GET", "/sessions/"+talk+"/messages?html=1&replay=1&limit=3", nil), talk, "look", http.StatusOK)
	c.expect(c.call(rnd, "GET", "/requests?limit=3&session_id="+talk, nil), talk, "look", http.StatusOK)
	nowhere := []string{"/sessions/none", "/requests/none", "/tasks/none", "/workflows/none", "/dlq/none", "/bus/none", "/sessions/none/messages", "/events?session_id=none"}
	c.expect(c.call(rnd, "GET", pick(rnd, nowhere...), nil), "", "look at nothing", http.StatusNotFound)
	wrong := []string{"/sessions?limit=0", "/requests?limit=%", "/search?q=", "/events?cursor=x", "/events?from=never", "/dlq?no=1", "/bus/env?after=x", "/sessions?a;b"}
	c.expect(c.call(rnd, "GET", pick(rnd, wrong...), nil), "", "wrong query", http.StatusBadRequest)
	for _, token := range []string{"", "Bearer", "Bearer x" + e2e.Token, "Basic " + e2e.Token, "Bearer " + e2e.Token + " x"} {
		c.expect(c.call(rnd, "GET", "/sessions", nil, "Authorization", token), "", "wrong token", http.StatusUnauthorized)
	}
}

// odd sends invalid bodies.
func (c *patrons) odd(rnd *rand.Rand, talk string) {
	for range 3 {
		body := pick(rnd, "", "[]", "null", "{", `{"content":5}`, `{"content":" "}`, `{"contents":"x"}`, `{"content":"x"} x`, `{"content":"x","queue":"never"}`,
			`{"content":`+strings.Repeat("[", 20000)+strings.Repeat("]", 20000)+"}", `{"content":"x","attachments":[null]}`, "\x00", "\xff\xfe",
			`{"content":"x","attachments":[{"filename":"../x","text":""}]}`, `{"content":"x","attachments":[{"filename":"x","dataBase64":"?"}]}`)
		c.expect(c.call(rnd, "POST", "/sessions/"+talk+"/prompt", []byte(body)), talk, "odd body", http.StatusBadRequest)
	}
	body := `{"content":"` + strings.Repeat("x", 1<<20) + `y"}`
	c.expect(c.call(rnd, "POST", "/sessions/"+talk+"/prompt", []byte(body)), talk, "large body", http.StatusRequestEntityTooLarge)
}
