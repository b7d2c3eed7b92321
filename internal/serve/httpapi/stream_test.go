package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"lilac/internal/engine/bus"
	"lilac/internal/engine/sqlitebus"
	"lilac/internal/foundation/event"
	"lilac/internal/testkit/effort"
)

func TestGroupsAreListedAndDropped(t *testing.T) {
	w := newWorld(t)
	ctx, stop := context.WithCancel(context.Background())
	if err := w.bus.Declare(ctx, bus.Subscription{Topic: event.TopicEnv, Group: "left/behind"}); err != nil {
		t.Fatal(err)
	}
	served := bus.Subscription{Topic: event.TopicEnv, Group: "served"}
	done, handled := make(chan error, 1), make(chan struct{}, 10)
	if err := w.bus.Declare(ctx, served); err != nil {
		t.Fatal(err)
	}
	go func() {
		done <- w.bus.Subscribe(ctx, served, func(context.Context, bus.Delivery) error { handled <- struct{}{}; return nil })
	}()
	t.Cleanup(func() { stop(); <-done })
	if err := w.bus.Publish(ctx, event.Event{ID: "1", Topic: event.TopicEnv, Type: "custom.x", Data: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	<-handled
	status := func() (out map[string]bool) {
		_, body := w.call("GET", "/bus/groups", "")
		var found struct {
			Groups []struct {
				Group  string
				Silent bool
			}
		}
		if err := json.Unmarshal([]byte(body), &found); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		out = map[string]bool{}
		for _, g := range found.Groups {
			out[g.Group] = g.Silent
		}
		return out
	}
	got := status()
	if silent, there := got["left/behind"]; !there || !silent {
		t.Errorf("groups %v; want one that was left behind", got)
	}
	if silent, there := got["served"]; !there || silent {
		t.Errorf("groups %v; want one that is served", got)
	}
	if code, body := w.call("DELETE", "/bus/groups/env/served", ""); code != 409 {
		t.Errorf("dropping a served group: %d %s", code, body)
	}
	if code, body := w.call("DELETE", "/bus/groups/env/left%2Fbehind", ""); code != 204 {
		t.Errorf("dropping a silent group: %d %s", code, body)
	}
	if _, there := status()["left/behind"]; there {
		t.Error("a dropped group is still there")
	}
}

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

func delta(i int) event.TextDelta {
	return event.TextDelta{Delta: fmt.Sprintf("%04d ", i), Offset: int64(i * 5), Seq: int64(i)}
}

// textOf assembles the text of a request as a client does. It fails on a gap or a repetition.
func textOf(t testing.TB, frames []frame) (text string) {
	t.Helper()
	for _, f := range frames {
		if f.Event != "stream.text" {
			continue
		}
		var e event.EnvEvent
		var p struct {
			Content string
			Offset  int
		}
		if err := json.Unmarshal([]byte(f.Data), &e); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(e.Payload, &p); err != nil {
			t.Fatal(err)
		}
		if p.Offset != len(text) {
			t.Fatalf("a piece at offset %d, but the text has %d bytes", p.Offset, len(text))
		}
		text += p.Content
	}
	return text
}

func TestStreamResumesAcrossAServerRestart(t *testing.T) {
	w := newWorld(t)
	s := w.newSession()
	r := "web:" + s + ":m1"
	l := w.listen("session_id="+s, "")
	w.begin(s, r)
	for i := range 20 {
		w.publish(s, r, delta(i))
	}
	seen := l.until("stream.start")
	for range 5 {
		seen = append(seen, l.until("stream.text")...)
	}
	cursor := seen[len(seen)-1].ID
	l.stop()
	w.restart()
	for i := 20; i < 40; i++ {
		w.publish(s, r, delta(i))
	}
	l = w.listen("session_id="+s, cursor)
	w.end(s, r, "the end")
	seen = append(seen, l.until("stream.completed")...)
	if text := textOf(t, seen); len(text) != 40*5 {
		t.Errorf("the text has %d bytes", len(text))
	}
	starts := 0
	for _, f := range seen {
		if f.Event == "stream.start" {
			starts++
		}
	}
	if starts != 1 {
		t.Errorf("%d starts", starts)
	}
}

func TestLoadingMessagesThenTheStreamLosesNothing(t *testing.T) {
	w := newWorld(t)
	s := w.newSession()
	r := "web:" + s + ":m1"
	w.begin(s, r)
	for i := range 10 {
		w.publish(s, r, delta(i))
	}
	_, body := w.call("GET", "/sessions/"+s+"/messages?html=1", "")
	var page struct {
		Cursor  string
		Running []string
	}
	if err := json.Unmarshal([]byte(body), &page); err != nil || len(page.Running) != 1 || page.Running[0] != r {
		t.Fatalf("%s, %v", body, err)
	}
	l := w.listen("session_id="+s+"&cursor="+page.Cursor, "")
	w.publish(s, r, delta(10))
	w.end(s, r, "")
	seen := l.until("stream.completed")
	if seen[0].Event != "stream.start" || len(textOf(t, seen)) != 11*5 {
		t.Errorf("first %s, text %q", seen[0].Event, textOf(t, seen))
	}
	// Without a cursor the stream starts now and does not replay earlier text.
	w.begin(s, r+"x")
	w.publish(s, r+"x", delta(0))
	l = w.listen("session_id="+s, "")
	w.publish(s, r+"x", delta(1))
	w.end(s, r+"x", "")
	seen = l.until("stream.completed")
	if len(seen) != 2 || !strings.Contains(seen[0].Data, "0001 ") {
		t.Errorf("got %v", seen)
	}
}

func TestStreamShowsOneSessionOrAll(t *testing.T) {
	w := newWorld(t)
	a, b := w.newSession(), w.newSession()
	one, all := w.listen("session_id="+a, ""), w.listen("", "")
	for _, s := range []string{b, a} {
		w.begin(s, "web:"+s+":1")
		w.publish(s, "web:"+s+":1", delta(0))
		w.end(s, "web:"+s+":1", "0000 ")
	}
	for _, f := range one.until("stream.completed") {
		if strings.Contains(f.Data, b) {
			t.Errorf("a frame of another session: %s", f.Data)
		}
	}
	all.until("stream.completed")
	all.until("stream.completed")
}

func TestStreamFromTheBeginningReplaysRetainedEvents(t *testing.T) {
	w := newWorld(t)
	s := w.newSession()
	for i := range 3 {
		r := fmt.Sprint("web:", s, ":", i)
		w.begin(s, r)
		w.publish(s, r, delta(0), delta(1))
		w.end(s, r, "x")
	}
	l := w.listen("from=begin&session_id="+s, "")
	created := false
	for range 3 {
		seen := l.until("stream.completed")
		var mine []frame
		for _, f := range seen {
			created = created || f.Event == "session.created"
			if f.Event != "session.created" {
				mine = append(mine, f)
			}
		}
		if len(mine) != 4 || mine[0].Event != "stream.start" {
			t.Errorf("got %v", mine)
		}
	}
	if !created {
		l.until("session.created")
	}
}

func TestBadStreamRequestsAreRefused(t *testing.T) {
	w := newWorld(t)
	for path, want := range map[string]string{
		"/events?cursor=x":                 `"field":"cursor"`,
		"/events?from=middle":              `"field":"from"`,
		"/events?sesion_id=x":              `"field":"sesion_id"`,
		"/events?session_id=none":          `"not_found"`,
		"/bus/env/tail?after=x":            `"kind"`,
		"/bus/envy":                        `There is no topic \"envy\"`,
		"/bus/envy/tail":                   `"not_found"`,
		"/bus/env?limit=0":                 `"field":"limit"`,
		"/bus/env?after=nonsense":          `"kind"`,
		"/requests?limit=many":             `"field":"limit"`,
		"/sessions/none/messages":          `"not_found"`,
		"/requests/none":                   `"not_found"`,
		"/dlq/none":                        `"not_found"`,
		"/nothing":                         `"not_found"`,
		"/sessions?limit=5&befor=x":        `"field":"befor"`,
		"/sessions/none/messages?html=yup": `"field":"html"`,
	} {
		if code, body := w.call("GET", path, ""); code < 400 || code >= 500 || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
}

func TestExpiredEventsAreReportedAndTheStreamContinues(t *testing.T) {
	w := &world{t: t, dir: t.TempDir(), tables: &tables{}}
	w.opt = Options{Token: token, Tables: w.tables.ports()}
	w.busOpt = sqlitebus.Options{Age: time.Millisecond, TrimEvery: -1, Grace: time.Nanosecond}
	w.open()
	t.Cleanup(w.close)
	s := w.newSession()
	w.begin(s, "web:"+s+":first")
	w.end(s, "web:"+s+":first", "x")
	l := w.listen("session_id="+s, "")
	l.stop()
	for i := range 10 {
		w.begin(s, fmt.Sprint("web:", s, ":", i))
		w.end(s, fmt.Sprint("web:", s, ":", i), "x")
	}
	time.Sleep(5 * time.Millisecond) // the trimmed events must be older than the retention time
	if n, err := w.bus.Trim(context.Background()); err != nil || n == 0 {
		t.Fatalf("removed %d, %v", n, err)
	}
	l = w.listen("session_id="+s, l.first)
	gap := l.until(streamGap)
	if !strings.Contains(gap[len(gap)-1].Data, "/messages") {
		t.Errorf("got %v", gap)
	}
	w.begin(s, "web:"+s+":new")
	w.publish(s, "web:"+s+":new", delta(0))
	w.end(s, "web:"+s+":new", "0000 ")
	for seen := l.until("stream.completed"); !strings.Contains(seen[len(seen)-1].Data, ":new"); seen = l.until("stream.completed") {
	}
}

func TestCursorOfAnotherStoreReportsAGap(t *testing.T) {
	w := newWorld(t)
	l := w.listen("", cursor{Epoch: "other", Env: "7"}.String())
	if f := l.until(streamGap); !strings.Contains(f[0].Data, "messages") {
		t.Errorf("got %v", f)
	}
}

// When the events have moved to another engine, the cursors of clients are no longer valid. The stream
// then reports a gap instead of an error, so that clients can continue.
func TestCursorOfAnotherEngineReportsAGap(t *testing.T) {
	w := newWorld(t)
	l := w.listen("", cursor{Epoch: w.db.StoreID(), Env: "2-10", Req: "2-8"}.String())
	if f := l.until(streamGap); !strings.Contains(f[0].Data, "messages") {
		t.Errorf("got %v", f)
	}
}

func TestSilentStreamSendsHeartbeats(t *testing.T) {
	w := &world{t: t, dir: t.TempDir(), tables: &tables{}}
	w.opt = Options{Token: token, Tables: w.tables.ports(), Heartbeat: 5 * time.Millisecond}
	w.open()
	t.Cleanup(w.close)
	c := w.dial("GET /events HTTP/1.1\r\n")
	buf := make([]byte, 4096)
	var all []byte
	for !bytes.Contains(all, []byte(": alive")) {
		n, err := c.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, buf[:n]...)
	}
}

func (w *world) dial(first string) net.Conn {
	w.t.Helper()
	c, err := net.Dial("tcp", w.srv.Listener.Addr().String())
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		w.t.Fatal(err)
	}
	fmt.Fprintf(c, "%sHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", first, token)
	return c
}

func TestSlowClientIsDisconnectedAndDelaysNobody(t *testing.T) {
	effort.SkipSlow(t)
	w := &world{t: t, dir: t.TempDir(), tables: &tables{}}
	w.opt = Options{Token: token, Tables: w.tables.ports(), WriteTimeout: 3 * time.Second}
	w.open()
	t.Cleanup(w.close)
	s := w.newSession()
	r := "web:" + s + ":1"
	stuck := w.dial("GET /events?session_id=" + s + " HTTP/1.1\r\n")
	if err := stuck.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	l := w.listen("session_id="+s, "")
	w.begin(s, r)
	big := strings.Repeat("x", 64<<10)
	const n = 150
	for i := range n {
		w.publish(s, r, event.TextDelta{Delta: big, Offset: int64(i * len(big))})
	}
	w.end(s, r, "")
	if got := len(textOf(t, l.until("stream.completed"))); got != n*len(big) {
		t.Errorf("the quick reader got %d bytes", got)
	}
	gone := func() bool {
		_, body := w.call("GET", "/metrics", "")
		return strings.Contains(body, "lilac_event_streams 1\n")
	}
	for end := time.Now().Add(time.Minute); !gone(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the reader that does not read is still connected")
		}
	}
}

func TestBusTopicsAreReturnedUnmodified(t *testing.T) {
	w := newWorld(t)
	s := w.newSession()
	r := "web:" + s + ":1"
	topic := string(event.OutputTopic(r))
	w.publish(s, r, delta(0), delta(1), delta(2))
	var page struct {
		Events []struct{ ID, Type, Position string }
	}
	_, body := w.call("GET", "/bus/"+topic+"?limit=2", "")
	if err := json.Unmarshal([]byte(body), &page); err != nil || len(page.Events) != 2 {
		t.Fatalf("%s, %v", body, err)
	}
	c := w.dial("GET /bus/" + topic + "/tail?after=" + page.Events[1].Position + " HTTP/1.1\r\n")
	var all []byte
	buf := make([]byte, 4096)
	for !bytes.Contains(all, []byte("0002 ")) {
		n, err := c.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, buf[:n]...)
	}
	if bytes.Contains(all, []byte("0001 ")) || !bytes.Contains(all, []byte("event: evt.agent.output.delta.text")) {
		t.Errorf("got %s", all)
	}
}

// A client that starts to tail now and disconnects before the first event resumes at its start position
// and misses nothing.
func TestTailSendsItsStartPosition(t *testing.T) {
	w := newWorld(t)
	s := w.newSession()
	r := "web:" + s + ":1"
	topic := string(event.OutputTopic(r))
	first := func(id, until string) string {
		c := w.dial("GET /bus/" + topic + "/tail HTTP/1.1\r\nLast-Event-ID: " + id + "\r\n")
		defer c.Close()
		var all []byte
		buf := make([]byte, 4096)
		for !bytes.Contains(all, []byte(until)) {
			n, err := c.Read(buf)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, buf[:n]...)
		}
		return string(all)
	}
	begin := regexp.MustCompile(`(?m)^id: (\S+)\n\n`)
	where := func(answer string) string {
		m := begin.FindStringSubmatch(strings.ReplaceAll(answer, "\r", ""))
		if m == nil {
			t.Fatalf("no id in %q", answer)
		}
		return m[1]
	}
	empty := where(first("", "id: "))
	w.publish(s, r, delta(0))
	if got := first(empty, "0000 "); where(got) != empty {
		t.Errorf("resumed at %q: %q", empty, got)
	}
	later := where(first("", "id: "))
	w.publish(s, r, delta(1))
	if got := first(later, "0001 "); strings.Contains(got, "0000 ") {
		t.Errorf("resumed at %q: %q", later, got)
	}
}

// TestManyStreams is the short version of the load test. Every stream must receive every token; the
// test logs the CPU time per token.
func TestManyStreams(t *testing.T) {
	streams, tokens := 20, 50
	if effort.Long() {
		streams, tokens = 500, 200
	}
	w := newWorld(t)
	var listeners []*listener
	var sessions []string
	for range streams {
		s := w.newSession()
		sessions = append(sessions, s)
		listeners = append(listeners, w.listen("session_id="+s, ""))
		w.begin(s, "web:"+s+":1")
	}
	before := cpu()
	for i := range tokens {
		var all []event.Event
		for _, s := range sessions {
			id := "web:" + s + ":1"
			e, err := event.New(event.Meta{ID: fmt.Sprint(id, ":d:", i), Time: time.UnixMilli(1), Headers: event.RequestHeaders(id, s, "web")}, delta(i))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, e)
		}
		if err := w.bus.Publish(context.Background(), all...); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range sessions {
		w.end(s, "web:"+s+":1", "x")
	}
	var wg sync.WaitGroup
	for _, l := range listeners {
		wg.Go(func() {
			n := 0
			for f := range l.frames {
				if f.Event == "stream.text" {
					n++
				}
				if f.Event == "stream.completed" {
					break
				}
			}
			if n != tokens {
				t.Errorf("a stream got %d of %d tokens", n, tokens)
			}
		})
	}
	wg.Wait()
	t.Logf("%d streams, %v of processor for each token, publishing and reading included", streams, (cpu()-before)/time.Duration(streams*tokens))
}

func cpu() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
