package e2e_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"lilac/internal/foundation/event"
	"lilac/internal/testkit/e2e"
)

func dialRaw(addr string) (*net.TCPConn, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return conn.(*net.TCPConn), nil
}

// A follower reads the event stream of one conversation, or of all, from its beginning.
type follower struct {
	talk   string
	stop   context.CancelFunc
	done   chan struct{}
	times  int // number of connections
	mu     sync.Mutex
	reader reader
	seen   map[string]bool
}

func newFollower(talk string) *follower {
	return &follower{talk: talk, seen: map[string]bool{}, reader: reader{texts: map[string]string{}, over: map[string]bool{}}}
}

func (f *follower) frame(x e2e.Frame) {
	f.reader.frame(x)
	f.mu.Lock()
	defer f.mu.Unlock()
	if x.Event == "stream.gap" {
		return
	}
	if f.seen[x.Data.ID] {
		f.reader.mu.Lock()
		f.reader.wrong = append(f.reader.wrong, x.Data.ID+" came twice")
		f.reader.mu.Unlock()
	}
	f.seen[x.Data.ID] = true
}

// follow starts a follower whose connections break.
func (c *patrons) follow(rnd *rand.Rand, talk string) {
	if rnd.IntN(4) == 0 {
		talk = ""
	}
	ctx, stop := context.WithCancel(context.Background())
	f := newFollower(talk)
	f.stop, f.done = stop, make(chan struct{})
	c.mu.Lock()
	c.followed = append(c.followed, f)
	c.mu.Unlock()
	addr := c.cut.addr
	version := pick(rnd, "HTTP/1.1", "HTTP/1.0")
	go func() {
		defer close(f.done)
		cursor := ""
		for ctx.Err() == nil {
			f.mu.Lock()
			f.times++
			f.mu.Unlock()
			if !c.stream(ctx, addr, version, talk, &cursor, f.frame) {
				return
			}
			time.Sleep(20 * time.Millisecond) // the delay that browsers use
		}
	}()
	c.t.Cleanup(func() {
		stop()
		<-f.done
	})
}

// stream reads one connection to its end, and reports whether a reconnect is useful. It ignores an
// incomplete frame at the end.
func (c *patrons) stream(ctx context.Context, addr, version, talk string, cursor *string, fn func(e2e.Frame)) bool {
	conn, err := dialRaw(addr)
	if err != nil {
		return true
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	query := "from=begin"
	if talk != "" {
		query += "&session_id=" + talk
	}
	head := ""
	if *cursor != "" {
		head = "Last-Event-ID: " + *cursor + "\r\n"
	}
	_, _ = fmt.Fprintf(conn, "GET /events?%s %s\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n%s\r\n", query, version, e2e.Token, head)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return true
	}
	defer res.Body.Close()
	switch res.StatusCode {
	case http.StatusOK:
	case http.StatusServiceUnavailable:
		return true
	case http.StatusNotFound:
		if !c.isGone(talk) {
			c.t.Errorf("the stream of %s is not there", talk)
		}
		return false
	default:
		c.t.Errorf("the stream of %q was answered with %d", talk, res.StatusCode)
		return false
	}
	var f e2e.Frame
	in := bufio.NewReaderSize(res.Body, 1<<20)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return true
		}
		line = strings.TrimSuffix(line, "\n")
		switch {
		case line == "":
			if f.ID != "" {
				*cursor = f.ID
			}
			if f.Event != "" {
				fn(f)
			}
			f = e2e.Frame{}
		case strings.HasPrefix(line, "id: "):
			f.ID = line[4:]
		case strings.HasPrefix(line, "event: "):
			f.Event = line[7:]
		case strings.HasPrefix(line, "data: "):
			if err := json.Unmarshal([]byte(line[6:]), &f.Data); err != nil {
				c.t.Errorf("a frame holds %q: %v", line, err)
			}
		}
	}
}

// pages reads a list page by page. The pages must contain all unchanged rows that existed before,
// and no row twice.
func (c *patrons) pages(rnd *rand.Rand, name string) {
	type row struct {
		ID        string
		UpdatedAt int64
	}
	var first struct{ Sessions []row }
	c.call(rnd, "GET", "/sessions?limit=1000", nil).into(&first)
	got, whole := c.list(rnd, "/sessions", "sessions", pick(rnd, 1, 2, 5))
	if !whole {
		return
	}
	if n := len(got); n != len(slices.Compact(slices.Sorted(slices.Values(got)))) {
		c.t.Errorf("%s: the list has some twice: %q", name, got)
	}
	for _, was := range first.Sessions {
		if slices.Contains(got, was.ID) {
			continue
		}
		// Rows that changed in the meantime have moved to the head of the list.
		var now row
		r := c.call(rnd, "GET", "/sessions/"+was.ID, nil)
		if r.into(&now); r.status == http.StatusOK && now == was {
			c.t.Errorf("%s: the session %s is not in the list %q", name, was.ID, got)
		}
	}
}

// list reads all pages of a list. whole is true if every page was read.
func (c *patrons) list(rnd *rand.Rand, path, field string, limit int) (ids []string, whole bool) {
	before := ""
	for range 1000 {
		r := c.call(rnd, "GET", fmt.Sprintf("%s?limit=%d&before=%s", path, limit, before), nil)
		if r.status != http.StatusOK {
			c.expect(r, "", path+" behind "+before, http.StatusOK)
			return ids, false
		}
		var page map[string]json.RawMessage
		var rows []struct{ ID string }
		r.into(&page)
		_ = json.Unmarshal(page[field], &rows)
		if len(rows) == 0 {
			return ids, true
		}
		for _, row := range rows {
			ids = append(ids, row.ID)
		}
		if field == "messages" { // within a page of messages, the oldest comes first
			before = rows[0].ID
			continue
		}
		if before = ""; page["next"] == nil {
			return ids, true
		}
		_ = json.Unmarshal(page["next"], &before)
	}
	c.t.Errorf("%s never ends", path)
	return ids, false
}

// rest waits until all requests have ended.
func (c *patrons) rest() {
	c.t.Helper()
	close(c.ended)
	c.cut.mu.Lock()
	c.cut.calm = true
	c.cut.mu.Unlock()
	c.http.CloseIdleConnections() // those from before break
	rnd := rand.New(rand.NewPCG(1, 1))
	e2e.Eventually(c.t, 2*answerWithin, "all requests have ended", func() bool {
		answered := false
		for _, talk := range c.talks {
			answered = c.goOn(rnd, talk, "stop") || answered
		}
		return !answered && c.s.Backlog() == 0 && c.s.Count("SELECT count(*) FROM requests WHERE ended_at = 0") == 0
	})
}

// right checks all invariants once the server is idle.
func (c *patrons) right() {
	c.t.Helper()
	rnd := rand.New(rand.NewPCG(2, 2))
	ended := map[string]int{}
	for _, e := range c.s.Topic(string(event.TopicRequest)) {
		p, err := event.Decode(e)
		if err != nil {
			c.t.Fatal(err)
		}
		if l, ok := p.(event.RequestLifecycle); ok && l.State.Ended() {
			id := e.Headers[event.HeaderRequestID]
			if ended[id]++; ended[id] > 1 {
				c.t.Errorf("%s ended %d times", id, ended[id])
			}
		}
	}
	history := map[string][]e2e.Said{}
	for _, talk := range c.talks {
		if r := c.callAt(c.s.Addr, "GET", "/sessions/"+talk, nil); r.status == http.StatusOK {
			history[talk] = c.s.Messages(talk)
		} else if !c.gone[talk] {
			c.t.Errorf("the session %s is gone", talk)
		}
	}
	for _, p := range c.prompts {
		said, there := history[p.talk]
		if !there {
			continue
		}
		n := 0
		for _, m := range said {
			if m.Role == "user" && strings.Contains(m.Text(), p.text) {
				n++
			}
		}
		if n > 1 {
			c.t.Errorf("%s %+v is in the history %d times", p.text, p.answer, n)
		}
		if p.answer.RequestID != "" && n == 0 && !c.emptied[p.talk] && !c.cancelled(p) {
			c.t.Errorf("%s %+v was accepted and is not in the history", p.text, p.answer)
		}
		if p.file != nil && n == 1 {
			c.file(rnd, p)
		}
	}
	c.whole(rnd, history)
	afresh, want := map[string]*follower{}, map[string]map[string]string{}
	for _, f := range c.followed {
		if _, there := history[f.talk]; f.talk != "" && !there {
			f.stop()
			<-f.done
			continue
		}
		if afresh[f.talk] == nil {
			want[f.talk] = c.answers(f.talk, history)
			afresh[f.talk] = c.afresh(f.talk, want[f.talk])
		}
		c.told(f, afresh[f.talk], want[f.talk])
	}
	c.bounded()
}

// cancelled reports whether a prompt was canceled before its request took it: with the request
// that it was sent to, or as the next request.
func (c *patrons) cancelled(p *promptOf) bool {
	fresh := c.s.Story("web:" + p.talk + ":" + p.answer.MessageID).State
	return fresh == "cancelled" || fresh == "" && c.s.Story(p.answer.RequestID).State == "cancelled"
}

// whole checks that the lists contain every item exactly once.
func (c *patrons) whole(rnd *rand.Rand, history map[string][]e2e.Said) {
	once := func(path string, got []string) {
		slices.Sort(got)
		if n := len(got); n != len(slices.Compact(slices.Clone(got))) {
			c.t.Errorf("%s lists some twice: %q", path, got)
		}
	}
	list := func(path, field string, limit int) []string {
		got, whole := c.list(rnd, path, field, limit)
		if !whole {
			c.t.Errorf("%s could not be read to its end", path)
		}
		return got
	}
	got := list("/sessions", "sessions", 2)
	once("/sessions", got)
	for id := range c.made {
		if _, there := history[id]; there && !slices.Contains(got, id) {
			c.t.Errorf("%s is not listed", id)
		}
	}
	got = list("/requests", "requests", 3)
	once("/requests", got)
	if want := c.s.Count("SELECT count(*) FROM requests"); len(got) != want {
		c.t.Errorf("%d requests are listed of %d", len(got), want)
	}
	for talk, said := range history {
		got := list("/sessions/"+talk+"/messages", "messages", 4)
		once("messages of "+talk, got)
		if len(got) != len(said) {
			c.t.Errorf("%d messages are listed of %d", len(got), len(said))
		}
	}
}

// told checks that a follower has read everything in the history, and everything that a fresh
// follower reads.
func (c *patrons) told(f, fresh *follower, want map[string]string) {
	c.t.Helper()
	e2e.Poll(answerWithin, func() bool { return maps.Equal(f.reader.of(want), want) && f.missing(fresh) == "" })
	f.stop()
	<-f.done
	if id := f.missing(fresh); id != "" {
		c.t.Errorf("a follower of %q, %d times connected, has not seen %s", f.talk, f.times, id)
	}
	for _, one := range []*follower{f, fresh} {
		if got := one.reader.of(want); !maps.Equal(got, want) {
			c.t.Errorf("a follower of %q, %d times connected, read %q, the history has %q", f.talk, one.times, got, want)
		}
		for _, why := range one.reader.wrong {
			c.t.Errorf("a follower of %q, %d times connected: %s", f.talk, one.times, why)
		}
	}
}

// missing returns an event that the other follower has seen and this one has not.
func (f *follower) missing(other *follower) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id := range other.seen {
		if !f.seen[id] {
			return id
		}
	}
	return ""
}

// afresh reads the stream from its beginning until it contains the answers.
func (c *patrons) afresh(talk string, want map[string]string) *follower {
	f := newFollower(talk)
	ctx, stop := context.WithTimeout(context.Background(), answerWithin)
	defer stop()
	if cursor := ""; len(want) > 0 {
		c.stream(ctx, c.s.Addr, "HTTP/1.1", talk, &cursor, func(x e2e.Frame) {
			if f.frame(x); maps.Equal(f.reader.of(want), want) {
				stop()
			}
		})
	}
	return f
}

// answers returns the answers of the finished requests of one conversation, or of all.
func (c *patrons) answers(talk string, history map[string][]e2e.Said) map[string]string {
	want := map[string]string{}
	for one, said := range history {
		if talk != "" && talk != one {
			continue
		}
		for id, text := range answersIn(said) {
			if c.s.Story(id).State == string(event.StateDone) {
				want[id] = text
			}
		}
	}
	return want
}

// answersIn joins the assistant's messages of each request.
func answersIn(said []e2e.Said) map[string]string {
	texts := map[string]string{}
	for _, m := range said {
		if m.Role == "assistant" && m.Text() != "" {
			if texts[m.RequestID] != "" {
				texts[m.RequestID] += "\n\n"
			}
			texts[m.RequestID] += m.Text()
		}
	}
	return texts
}

// bounded checks that the server keeps no resources for clients that have disconnected.
func (c *patrons) bounded() {
	c.t.Helper()
	for _, conn := range c.left {
		_ = conn.Close()
	}
	c.http.CloseIdleConnections()
	var now struct{ EventStreams int }
	if !e2e.Poll(answerWithin, func() bool {
		now.EventStreams = -1
		c.s.Request("GET", "/status", nil, &now)
		return now.EventStreams == 0
	}) {
		c.t.Errorf("%d streams are open that nobody reads", now.EventStreams)
	}
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", c.s.PID()))
	if len(fds) > 100 || err != nil {
		c.t.Errorf("%d files are open: %v", len(fds), err)
	}
	c.note("at the end: %d files, %d prompts, %d followers, %d sessions", len(fds), len(c.prompts), len(c.followed), len(c.talks))
}
