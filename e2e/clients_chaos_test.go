package e2e_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lilac/internal/foundation/event"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/llmtest"
)

// patrons is a server and the state that its clients expect.
type patrons struct {
	t     *testing.T
	s     *e2e.Server
	cut   *shears
	http  *http.Client
	paper *paper
	ended chan struct{}

	mu       sync.Mutex // guards the fields below
	talks    []string
	made     map[string]bool // sessions whose creation was confirmed
	gone     map[string]bool // sessions that a client has tried to delete
	emptied  map[string]bool // sessions whose queue a client has cleared
	prompts  []*promptOf
	followed []*follower
	left     []net.Conn // connections whose clients no longer read
	trace    []string
}

// A promptOf is one message. It is sent once, or, with a key, until it gets a response.
type promptOf struct {
	talk, text, key string
	queue           event.Queue
	body            []byte
	file            []byte
	answer          e2e.Accepted // the first response with status 200
}

func (c *patrons) note(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trace = append(c.trace, time.Now().Format("05.000 ")+fmt.Sprintf(format, args...))
}

// answerOf returns a model that answers with words, sometimes after a tool call.
func answerOf(seed uint64) func(llmtest.Request) llmtest.Script {
	var mu sync.Mutex
	rnd := rand.New(rand.NewPCG(seed, 11))
	words := []string{"Well. ", "Ünïcödé 👩‍👩‍👧 ", "\n\n", " ", "\u2028", "<b>&amp;</b>", "```", "data: x\n\n", "id: y\r\n", strings.Repeat("long ", 200)}
	return func(r llmtest.Request) llmtest.Script {
		mu.Lock()
		defer mu.Unlock()
		s := llmtest.Script{Delay: time.Duration(rnd.IntN(4)) * time.Millisecond, Text: []string{fmt.Sprintf("answer %d ", r.N)}}
		for range rnd.IntN(12) {
			s.Text = append(s.Text, pick(rnd, words...))
		}
		if rnd.IntN(4) == 0 {
			s.Calls = []llmtest.Call{{ID: fmt.Sprint("call", r.N), Name: "glob", Input: `{"pattern":"*"}`}}
		}
		s.Text = append(s.Text, "end.")
		return s
	}
}

func newPatrons(t *testing.T, bus e2e.Engine, seed uint64) *patrons {
	t.Helper()
	model := llmtest.New(t, answerOf(seed))
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte("limits: {request: {steps: 3}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := e2e.Start(t, append(append(bus(t), modelEnv(model.URL)...), "LILAC_CONFIG="+file)...)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	c := &patrons{
		t: t, s: s, cut: newShears(t, s.Addr, seed), http: &http.Client{Transport: transport}, ended: make(chan struct{}),
		made: map[string]bool{}, gone: map[string]bool{}, emptied: map[string]bool{},
	}
	c.paper = readPaper(t, s)
	for range 3 {
		c.talks = append(c.talks, s.NewSession())
	}
	for _, id := range c.talks {
		c.made[id] = true
	}
	return c
}

// A reply is an HTTP response; status 0 means that there was none.
type reply struct {
	status int
	header http.Header
	body   []byte
}

func (r reply) into(out any) { _ = json.Unmarshal(r.body, out) }

// call makes a request, sometimes over a connection that breaks, and compares the response with
// the OpenAPI document.
func (c *patrons) call(rnd *rand.Rand, method, path string, body []byte, header ...string) reply {
	addr := c.s.Addr
	if rnd.IntN(3) == 0 {
		addr = c.cut.addr
	}
	return c.callAt(addr, method, path, body, header...)
}

func (c *patrons) callAt(addr, method, path string, body []byte, header ...string) (out reply) {
	ctx, stop := context.WithTimeout(context.Background(), answerWithin)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+addr+path, bytes.NewReader(body))
	if err != nil {
		c.t.Error(err)
		return out
	}
	req.Header.Set("Authorization", "Bearer "+e2e.Token)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := c.http.Do(req)
	if err != nil {
		return out
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		return out
	}
	out = reply{res.StatusCode, res.Header, data}
	for _, why := range c.paper.against(method, path, out) {
		c.t.Errorf("%s %s answered %d %.300s: %s", method, path, out.status, data, why)
	}
	if out.status >= 500 {
		c.note("%s %s answered %d %.300s", method, path, out.status, data)
		var e struct{ Error struct{ Kind, Code string } }
		out.into(&e)
		if out.status != http.StatusServiceUnavailable || e.Error.Kind != "unavailable" {
			c.t.Errorf("%s %s answered %d %.300s", method, path, out.status, data)
		}
	}
	return out
}

func (c *patrons) talk(rnd *rand.Rand) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return pick(rnd, c.talks...)
}

func (c *patrons) isGone(talk string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gone[talk]
}

// client runs one client, which performs one action after the other.
func (c *patrons) client(n int, seed uint64, steps int) {
	rnd := rand.New(rand.NewPCG(seed, uint64(n)+100))
	for i := range steps {
		c.step(rnd, fmt.Sprintf("%d.%d", n, i))
	}
}

func (c *patrons) step(rnd *rand.Rand, name string) {
	talk := c.talk(rnd)
	switch what := rnd.IntN(30); {
	case what < 10:
		c.say(rnd, talk, name)
	case what < 12:
		body := pick(rnd, `{}`, ``, `{"cancelQueued":true}`, `{"reason":"because"}`)
		c.mu.Lock()
		c.emptied[talk] = c.emptied[talk] || strings.Contains(body, "true")
		c.mu.Unlock()
		r := c.call(rnd, "POST", "/sessions/"+talk+"/cancel", []byte(body))
		c.note("%s: cancel %s %s: %d", name, talk, body, r.status)
		c.expect(r, talk, "cancel", http.StatusOK)
	case what < 14:
		c.goOn(rnd, talk, pick(rnd, "continue", "stop"))
	case what < 15:
		c.mu.Lock()
		c.gone[talk] = true
		c.mu.Unlock()
		r := c.call(rnd, "DELETE", "/sessions/"+talk, nil)
		c.note("%s: delete %s: %d", name, talk, r.status)
		c.expect(r, talk, "delete", http.StatusNoContent, http.StatusConflict)
	case what < 17:
		r := c.call(rnd, "POST", "/sessions", []byte(`{"title":"talk `+name+`"}`))
		var made struct{ ID string }
		if r.into(&made); r.status == http.StatusCreated {
			c.mu.Lock()
			c.made[made.ID] = true
			c.talks = append(c.talks, made.ID)
			c.mu.Unlock()
		}
	case what < 18:
		r := c.call(rnd, "PATCH", "/sessions/"+talk, []byte(`{"title":"renamed by `+name+`"}`))
		c.expect(r, talk, "rename", http.StatusOK)
	case what < 21:
		c.pages(rnd, name)
	case what < 24:
		c.follow(rnd, talk)
	case what < 25:
		c.leaves(rnd)
	case what < 26:
		r := c.call(rnd, "GET", "/search?q=answer&limit=3", nil)
		c.expect(r, "", "search", http.StatusOK)
	case what < 27:
		c.files(rnd, talk)
	case what < 28:
		c.looks(rnd, talk)
		c.odd(rnd, talk)
	default:
		time.Sleep(time.Duration(rnd.IntN(150)) * time.Millisecond) // simulate slow users
	}
}

// expect requires one of the statuses, or no response, or a session that was deleted.
func (c *patrons) expect(r reply, talk, what string, statuses ...int) {
	if r.status == 0 || r.status == http.StatusServiceUnavailable || slices.Contains(statuses, r.status) {
		return
	}
	if r.status == http.StatusNotFound && talk != "" && c.isGone(talk) {
		return
	}
	c.t.Errorf("%s of %s was answered with %d %.300s", what, talk, r.status, r.body)
}

// say sends a message. With a key, it sends several copies concurrently until one gets a response.
func (c *patrons) say(rnd *rand.Rand, talk, name string) {
	p := &promptOf{talk: talk, text: "#" + name + ".", queue: pick(rnd, event.Prompt, event.Prompt, event.Steer, event.FollowUp, event.Interrupt)}
	in := map[string]any{"content": p.text, "queue": p.queue}
	if rnd.IntN(4) == 0 {
		p.file = bytes.Repeat([]byte(p.text), 1+rnd.IntN(5000))
		in["attachments"] = []any{map[string]any{"filename": "ä b" + name + ".txt", "dataBase64": base64.StdEncoding.EncodeToString(p.file)}}
	}
	p.body, _ = json.Marshal(in)
	var header []string
	if rnd.IntN(3) > 0 {
		p.key = "key " + name
		header = []string{"Idempotency-Key", p.key}
	}
	c.mu.Lock()
	c.prompts = append(c.prompts, p)
	c.mu.Unlock()
	for {
		var wg sync.WaitGroup
		times := 1
		if p.key != "" {
			times += rnd.IntN(3)
		}
		seeds := make([]uint64, times)
		for i := range seeds {
			seeds[i] = rnd.Uint64()
		}
		for _, seed := range seeds {
			wg.Go(func() {
				r := c.call(rand.New(rand.NewPCG(seed, 0)), "POST", "/sessions/"+talk+"/prompt", p.body, header...)
				c.answered(p, r)
			})
		}
		wg.Wait()
		c.mu.Lock()
		done := p.answer.RequestID != "" || c.gone[talk] || p.key == ""
		c.mu.Unlock()
		c.note("%s: %s in %s as %s, %d times: %+v", name, p.text, talk, p.queue, times, p.answer)
		if done {
			break
		}
		select {
		case <-c.ended:
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
	c.mu.Lock()
	taken := p.key != "" && p.answer.RequestID != ""
	c.mu.Unlock()
	if taken && rnd.IntN(3) == 0 {
		r := c.call(rnd, "POST", "/sessions/"+talk+"/prompt", []byte(`{"content":"other"}`), header...)
		c.expect(r, talk, "another prompt with the key of "+p.text, http.StatusConflict)
	}
}

func (c *patrons) answered(p *promptOf, r reply) {
	c.expect(r, p.talk, "prompt", http.StatusOK)
	if r.status != http.StatusOK {
		return
	}
	var a e2e.Accepted
	r.into(&a)
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.answer.RequestID != "" && p.answer != a {
		c.t.Errorf("%s was answered with %+v and with %+v", p.text, p.answer, a)
	}
	p.answer = a
}

// goOn answers a question of the agent, if there is one.
func (c *patrons) goOn(rnd *rand.Rand, talk, with string) (asked bool) {
	var now struct {
		ActiveRequest string
		Paused        *struct{ Number int }
	}
	r := c.call(rnd, "GET", "/sessions/"+talk, nil)
	c.expect(r, talk, "look", http.StatusOK)
	if r.into(&now); now.Paused == nil || now.ActiveRequest == "" {
		return false
	}
	r = c.call(rnd, "POST", "/requests/"+now.ActiveRequest+"/"+with, nil)
	c.expect(r, talk, with, http.StatusOK, http.StatusConflict)
	c.note("%s %s: %d", with, now.ActiveRequest, r.status)
	return true
}

// leaves makes large requests and then reads nothing or only a part of the response.
func (c *patrons) leaves(rnd *rand.Rand) {
	conn, err := dialRaw(c.s.Addr)
	if err != nil {
		return
	}
	c.mu.Lock()
	c.left = append(c.left, conn)
	c.mu.Unlock()
	version := pick(rnd, "1.1", "1.0")
	line := pick(rnd, "GET /events?from=begin", "GET /bus/env/tail?from=begin", "GET /sessions?limit=1000", "HEAD /sessions", "GET /status HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+e2e.Token+"\r\n\r\nGET /status")
	_, _ = fmt.Fprintf(conn, "%s HTTP/%s\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", line, version, e2e.Token)
	switch rnd.IntN(3) {
	case 0:
		_ = conn.CloseWrite()
	case 1:
		_, _ = io.CopyN(io.Discard, conn, 10)
		_ = conn.Close()
	}
}

// files requests the files of a session.
func (c *patrons) files(rnd *rand.Rand, talk string) {
	c.mu.Lock()
	var sent []*promptOf
	for _, p := range c.prompts {
		if p.talk == talk && p.file != nil && p.answer.RequestID != "" {
			sent = append(sent, p)
		}
	}
	c.mu.Unlock()
	if len(sent) > 0 {
		c.file(rnd, pick(rnd, sent...))
	}
}

func (c *patrons) file(rnd *rand.Rand, p *promptOf) {
	r := c.call(rnd, "GET", fmt.Sprintf("/sessions/%s/files/%x", p.talk, sha256.Sum256(p.file)), nil, pick(rnd, "Range", "X-Nothing"), "bytes=3-9")
	c.expect(r, p.talk, "file of "+p.text, http.StatusOK, http.StatusPartialContent)
	if r.status == http.StatusOK && !bytes.Equal(r.body, p.file) {
		c.t.Errorf("the file of %s has %d bytes, want %d", p.text, len(r.body), len(p.file))
	}
}

// Clients do anything concurrently, over connections that break at any byte, while the program is
// killed and stopped. Every accepted message gets exactly one answer, readers of the event stream
// see the same as the history, lists are complete, and each response matches the OpenAPI document.
func TestWhateverClientsDo(t *testing.T) {
	seeds, steps, clients := uint64(1), 8, 3
	if os.Getenv("LILAC_LONG") != "" {
		seeds, steps, clients = 20, 40, 6
	}
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		for seed := uint64(1); seed <= seeds; seed++ {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				c := newPatrons(t, bus, seed)
				defer func() {
					if t.Failed() {
						c.mu.Lock()
						defer c.mu.Unlock()
						t.Log(strings.Join(c.trace, "\n"))
					}
				}()
				var wg sync.WaitGroup
				for n := range clients {
					wg.Go(func() { c.client(n, seed, steps) })
				}
				over := make(chan struct{})
				go func() {
					wg.Wait()
					close(over)
				}()
				c.fate(rand.New(rand.NewPCG(seed, 99)), over)
				c.rest()
				c.right()
			})
		}
	})
}

// fate kills and stops the program until the clients are done.
func (c *patrons) fate(rnd *rand.Rand, over <-chan struct{}) {
	for {
		select {
		case <-over:
			return
		case <-time.After(time.Duration(200+rnd.IntN(1200)) * time.Millisecond):
		}
		if rnd.IntN(3) == 0 {
			c.note("ended in %s", c.s.Terminate(answerWithin))
		} else {
			c.s.Kill()
			c.note("kill")
		}
		c.s.Restart()
		c.note("start")
	}
}
