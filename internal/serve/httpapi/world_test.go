package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lilac/internal/core/session"
	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/engine/sqlitebus"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/testkit/dbtest"
)

// tables is the store of these tests. It holds sessions and requests in memory, but the inbox in the
// database, because the inbox must be part of the transaction.
type tables struct {
	mu       sync.Mutex
	sessions []session.Session
	requests []session.Request
	state    session.State // state of every session
	messages []session.HistoryMessage
	accepted []string // session ID and message ID
	// beforeMessages, if set, is called before messages are read.
	beforeMessages func()
	// files are the files that requests produced. had holds the files that sessions refer to: name and
	// type by session and reference.
	files []session.File
	had   map[[2]string][2]string
}

// ports returns the tables in the form that Options needs.
func (s *tables) ports() *Tables {
	return &Tables{Inbox: s, Sessions: s, Accepted: s, History: s, Requests: s, Files: s}
}

func (s *tables) ReferFiles(_ *db.Tx, id string, parts []chat.Part) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range parts {
		var ref string
		if err := json.Unmarshal(p.Data, &ref); err != nil {
			return err
		}
		s.had[[2]string{id, ref}] = [2]string{p.Filename, p.MediaType}
	}
	return nil
}

func (s *tables) Files(_ db.Queryer, _ string, requests []string) (out []session.File, err error) {
	for _, f := range s.files {
		if slices.Contains(requests, f.RequestID) {
			out = append(out, f)
		}
	}
	return out, nil
}

func (s *tables) FileOf(_ db.Queryer, id, ref string) (filename, mimeType string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, ok := s.had[[2]string{id, ref}]
	if !ok {
		return "", "", fault.New(fault.NotFound, "There is no such file.")
	}
	return f[0], f[1], nil
}

func (s *tables) Seen(tx *db.Tx, source, id string, value []byte) ([]byte, bool, error) {
	var prior []byte
	if tx.QueryRow("SELECT value FROM test_inbox WHERE id = ?", source+"/"+id).Scan(&prior) == nil {
		return prior, true, nil
	}
	_, err := tx.Exec("INSERT INTO test_inbox (id, value) VALUES (?, ?)", source+"/"+id, value)
	return nil, false, err
}

func (s *tables) CreateSession(_ *db.Tx, in session.Session) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions = append(s.sessions, in)
	return nil
}

func (s *tables) DeleteSession(_ *db.Tx, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions = slices.DeleteFunc(s.sessions, func(x session.Session) bool { return x.ID == id })
	return nil
}

func (s *tables) Accept(_ *db.Tx, id, message string) error {
	s.accepted = append(s.accepted, id+" "+message)
	return nil
}

func (s *tables) Session(_ db.Queryer, id string) (session.Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.sessions {
		if x.ID == id {
			return x, nil
		}
	}
	return session.Session{}, fault.New(fault.NotFound, "There is no session %q.", id)
}

func (s *tables) State(db.Queryer, string) (session.State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state, nil
}

func (s *tables) Sessions(_ db.Queryer, _ session.ListFilter, limit int, before string) ([]session.Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(behind(s.sessions, limit, before, func(v session.Session) string { return session.PageToken(v.UpdatedAt, v.ID) })), nil
}

func (s *tables) ListMessages(_ db.Queryer, _ string, _ int, _ string, in session.Span) ([]session.HistoryMessage, error) {
	if s.beforeMessages != nil {
		s.beforeMessages()
	}
	var out []session.HistoryMessage
	for _, m := range s.messages {
		if m.CreatedAt >= in.From && (in.Until == 0 || m.CreatedAt <= in.Until) {
			out = append(out, m)
		}
	}
	return out, nil
}

func (s *tables) AcceptedAt(_ db.Queryer, id, message string) (int64, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return 7, slices.Contains(s.accepted, id+" "+message), nil
}

func (s *tables) Requests(_ db.Queryer, id string, limit int, before string) (out []session.Request, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.requests {
		if id == "" || r.SessionID == id {
			out = append(out, r)
		}
	}
	if limit == 0 {
		return out, nil
	}
	return behind(out, limit, before, func(r session.Request) string { return session.PageToken(r.CreatedAt, r.ID) }), nil
}

func (s *tables) Asked(_ db.Queryer, r session.Request) (string, error) { return "about " + r.ID, nil }

func (s *tables) Request(q db.Queryer, id string) (session.Request, error) {
	story, err := s.Story(q, id)
	return story.Request, err
}

func (s *tables) Story(_ db.Queryer, id string) (session.Story, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.requests {
		if r.ID == id {
			return session.Story{Request: r}, nil
		}
	}
	return session.Story{}, fault.New(fault.NotFound, "There is no request %q.", id)
}

func (s *tables) Consumed(q db.Queryer, since int64, limit int) (out []session.Consumed, err error) {
	all, err := s.Requests(q, "", 0, "")
	for _, r := range all {
		if r.CreatedAt >= since && len(out) < limit {
			out = append(out, session.Consumed{CreatedAt: r.CreatedAt, Model: r.Model, Client: r.Client, SessionID: r.SessionID, Usage: r.Usage})
		}
	}
	return out, err
}

func (s *tables) Running(q db.Queryer, id string) (out []session.Request, err error) {
	all, err := s.Requests(q, id, 0, "")
	for _, r := range all {
		if r.State == event.StateRunning {
			out = append(out, r)
		}
	}
	return out, err
}

func (s *tables) IndexHistory(*db.Tx) error { return nil }

func (s *tables) Search(_ db.Queryer, query string, limit int, before int64) (out []session.SearchResult, err error) {
	for i := len(s.messages) - 1; i >= 0 && len(out) < limit; i-- {
		m := s.messages[i]
		if (before == 0 || m.Seq < before) && strings.Contains(m.Message.Text(), query) {
			out = append(out, session.SearchResult{SessionID: "s", MessageID: m.ID, RequestID: m.RequestID, Role: string(m.Message.Role), Excerpt: m.Message.Text(), Row: m.Seq})
		}
	}
	return out, nil
}

func (s *tables) SessionsTitled(_ db.Queryer, text string, _ int) (out []session.Session, err error) {
	for _, x := range s.sessions {
		if strings.Contains(x.Title, text) {
			out = append(out, x)
		}
	}
	return out, nil
}

func (s *tables) pause(sessionID string, p session.Pause) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.sessions {
		if s.sessions[i].ID == sessionID {
			s.sessions[i].Paused = &p
		}
	}
}

func (s *tables) setRunning(sessionID, requestID string, state event.RequestState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = slices.DeleteFunc(s.requests, func(r session.Request) bool { return r.ID == requestID })
	s.requests = append(s.requests, session.Request{ID: requestID, SessionID: sessionID, Client: "web", State: state})
	for i := range s.sessions {
		if s.sessions[i].ID == sessionID {
			s.sessions[i].ActiveRequest, s.sessions[i].State = "", "idle"
			if state == event.StateRunning {
				s.sessions[i].ActiveRequest, s.sessions[i].State = requestID, "running"
			}
		}
	}
}

// fakeBlobs stores the most recently written bytes and serves files by reference.
type fakeBlobs struct {
	last  []byte
	files map[string][]byte
}

func (b *fakeBlobs) Get(_ context.Context, ref string) ([]byte, error) {
	data, ok := b.files[ref]
	if !ok {
		return nil, fault.New(fault.NotFound, "It is gone.")
	}
	return data, nil
}

func (b *fakeBlobs) Put(_ context.Context, data []byte) (string, error) {
	b.last = data
	return "blob:sha256:00", nil
}

type world struct {
	t      testing.TB
	dir    string
	opt    Options
	busOpt sqlitebus.Options
	db     *db.DB
	bus    *sqlitebus.Bus
	tables *tables
	srv    *httptest.Server
	drain  context.CancelFunc
	n      int
}

func newWorld(t testing.TB, set ...func(*Options)) *world {
	w := &world{t: t, dir: t.TempDir(), tables: &tables{had: map[[2]string][2]string{}}}
	w.opt = Options{Token: token, Tables: w.tables.ports(), Blobs: &fakeBlobs{}}
	for _, s := range set {
		s(&w.opt)
	}
	w.open()
	t.Cleanup(w.close)
	return w
}

func (w *world) open() {
	w.t.Helper()
	migrations := append([]db.Migration{{Name: "test", SQL: "CREATE TABLE test_inbox (id TEXT PRIMARY KEY, value BLOB) STRICT;"}}, sqlitebus.Migrations...)
	var err error
	if w.db, err = db.Open(context.Background(), dbtest.Options(db.Options{Dir: w.dir, Migrations: migrations})); err != nil {
		w.t.Fatal(err)
	}
	if w.bus, err = sqlitebus.New(w.db, w.busOpt); err != nil {
		w.t.Fatal(err)
	}
	w.opt.DB, w.opt.Bus = w.db, w.bus
	w.opt.Stopping, w.drain = context.WithCancel(context.Background())
	w.srv = httptest.NewServer(conforming(w.t, New(w.opt)))
}

func (w *world) close() {
	w.drain()
	w.srv.Close()
	if err := errors.Join(w.bus.Close(), w.db.Close()); err != nil {
		w.t.Error(err)
	}
}

func (w *world) restart() {
	w.close()
	w.open()
}

// call sends a request with the token and returns the status and the body.
func (w *world) call(method, path, body string, headers ...string) (int, string) {
	w.t.Helper()
	r, err := http.NewRequest(method, w.srv.URL+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	res, err := w.srv.Client().Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return res.StatusCode, string(raw)
}

func (w *world) newSession() string {
	w.t.Helper()
	code, body := w.call("POST", "/sessions", `{}`)
	var s session.Session
	if err := json.Unmarshal([]byte(body), &s); err != nil || code != http.StatusCreated {
		w.t.Fatalf("POST /sessions: %d %s", code, body)
	}
	return s.ID
}

// getWith serves one GET request from a server that uses another bus.
func (w *world) getWith(b bus.Bus, path string) (int, string) {
	opt := w.opt
	opt.Bus = b
	r := httptest.NewRequest("GET", "http://127.0.0.1"+path, nil)
	r.Header.Set("Authorization", "Bearer "+token)
	rec := httptest.NewRecorder()
	conforming(w.t, New(opt)).ServeHTTP(rec, r)
	return rec.Code, rec.Body.String()
}

func (w *world) publish(sessionID, requestID string, payloads ...event.Payload) {
	w.t.Helper()
	var all []event.Event
	for _, p := range payloads {
		w.n++
		e, err := event.New(event.Meta{ID: fmt.Sprint("n", w.n), Time: time.UnixMilli(int64(w.n)), Headers: event.RequestHeaders(requestID, sessionID, "web")}, p)
		if err != nil {
			w.t.Fatal(err)
		}
		all = append(all, e)
	}
	if err := w.bus.Publish(context.Background(), all...); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) begin(sessionID, requestID string) {
	w.tables.setRunning(sessionID, requestID, event.StateRunning)
	w.publish(sessionID, requestID, event.RequestLifecycle{State: event.StateRunning})
}

func (w *world) end(sessionID, requestID, text string) {
	w.publish(sessionID, requestID, event.FinalText{FinalText: text})
	w.tables.setRunning(sessionID, requestID, event.StateDone)
	w.publish(sessionID, requestID, event.RequestLifecycle{State: event.StateDone})
}

// listener reads the event stream.
type listener struct {
	t      testing.TB
	frames chan frame
	stop   func()
	// first is the cursor before the first frame.
	first string
}

func (w *world) listen(query, lastID string) *listener {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r, err := http.NewRequestWithContext(ctx, "GET", w.srv.URL+"/events?"+query, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	if lastID != "" {
		r.Header.Set("Last-Event-ID", lastID)
	}
	res, err := w.srv.Client().Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	if res.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(res.Body)
		w.t.Fatalf("GET /events: %d %s", res.StatusCode, body)
	}
	l := &listener{t: w.t, frames: make(chan frame, 10000)}
	opened := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer res.Body.Close()
		defer close(l.frames)
		var pending []byte
		chunk := make([]byte, 32<<10)
		for {
			n, err := res.Body.Read(chunk)
			pending = append(pending, chunk[:n]...)
			for {
				i := bytes.Index(pending, []byte("\n\n"))
				if i < 0 {
					break
				}
				block := string(pending[:i])
				pending = pending[i+2:]
				if cur, ok := strings.CutPrefix(block, "id: "); ok && l.first == "" && !strings.Contains(block, "\n") {
					l.first = cur
					close(opened)
				}
				for _, f := range parseFrames(block) {
					l.frames <- f
				}
			}
			if err != nil {
				if l.first == "" {
					close(opened)
				}
				return
			}
		}
	}()
	l.stop = func() { cancel(); <-done }
	w.t.Cleanup(l.stop)
	<-opened
	return l
}

// until returns the frames up to and including the first one of the type.
func (l *listener) until(typ string) (out []frame) {
	l.t.Helper()
	deadline := time.After(time.Minute)
	for {
		select {
		case f, ok := <-l.frames:
			if !ok {
				l.t.Fatalf("the stream ended before %s, after %d frames", typ, len(out))
			}
			out = append(out, f)
			if f.Event == typ {
				return out
			}
		case <-deadline:
			var got []string
			for _, f := range out {
				got = append(got, f.Event)
			}
			l.t.Fatalf("no %s within the deadline; got %v", typ, got)
		}
	}
}

func message(id, request, text string) session.HistoryMessage {
	return session.HistoryMessage{ID: id, RequestID: request, CreatedAt: 5, Message: chat.Text(chat.Assistant, text)}
}
