package session_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"lilac/internal/agent/tool"
	"lilac/internal/core/session"
	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/engine/sqlitebus"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/model/llm"
	"lilac/internal/store"
	"lilac/internal/testkit/dbtest"
)

// script defines the behavior of a model. It returns the answer to a request; say streams text.
type script func(ctx context.Context, req llm.Request, say func(string)) (chat.Message, error)

// scripted is a model that runs a script and counts finished calls.
type scripted struct {
	do     script
	window int
	effort string
	hears  bool
	price  *llm.Price
	// notes makes the script see the program's notes about the date and the like.
	notes bool

	mu    sync.Mutex
	calls int
}

func (m *scripted) Info() llm.Info {
	return llm.Info{Provider: "test", Name: "script", ContextTokens: m.window, MaxOutputTokens: 1000, Audio: m.hears, Price: m.price, Effort: m.effort}
}

func (m *scripted) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Chunk, error] {
	if !m.notes {
		req.Messages = slices.DeleteFunc(slices.Clone(req.Messages), func(msg chat.Message) bool { return msg.Role == chat.System })
	}
	return func(yield func(llm.Chunk, error) bool) {
		left := false
		msg, err := m.do(ctx, req, func(text string) {
			left = left || !yield(llm.Chunk{Kind: llm.ChunkText, Text: text}, nil)
		})
		if left {
			return
		}
		if err != nil {
			yield(llm.Chunk{}, err)
			return
		}
		m.mu.Lock()
		m.calls++
		m.mu.Unlock()
		stop := llm.StopEnd
		if len(msg.ToolCalls()) > 0 {
			stop = llm.StopTools
		}
		yield(llm.Chunk{Kind: llm.ChunkDone, Message: msg, Usage: chat.Usage{InputTokens: 10, OutputTokens: 5}, Stop: stop}, nil)
	}
}

func (m *scripted) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.calls
}

func lastUser(req llm.Request) string {
	for i := len(req.Messages) - 1; i >= 0; i-- {
		if req.Messages[i].Role == chat.User {
			return req.Messages[i].Text()
		}
	}
	return ""
}

// echo answers immediately with the last user message.
func echo(_ context.Context, req llm.Request, say func(string)) (chat.Message, error) {
	say("echo: ")
	return chat.Text(chat.Assistant, "echo: "+lastUser(req)), nil
}

type rig struct {
	t     testing.TB
	dir   string
	db    *db.DB
	bus   bus.Bus
	store *store.Store
	svc   *session.Service
	model *scripted
	stop  func()
}

type rigOptions struct {
	dir      string
	do       script
	tools    []tool.Tool
	onCommit func(done bool)
	change   func(*session.Options)
}

const sid = "s1"

func newRig(t testing.TB, o rigOptions) *rig {
	t.Helper()
	if o.dir == "" {
		o.dir = t.TempDir()
	}
	if o.do == nil {
		o.do = echo
	}
	var migrations []db.Migration
	migrations = append(append(migrations, sqlitebus.Migrations...), store.Migrations...)
	database, err := db.Open(t.Context(), dbtest.Options(db.Options{Dir: o.dir, Migrations: migrations, OnCommit: o.onCommit}))
	if err != nil {
		t.Fatal(err)
	}
	b, err := sqlitebus.New(database, sqlitebus.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, dir: o.dir, db: database, bus: b, store: store.New(database), model: &scripted{do: o.do, window: 100_000}}
	workspace := t.TempDir()
	opt := session.Options{
		DB: database, Bus: b, Tables: tables(), Tools: o.tools,
		Workspace:     func(sessionID string) string { return filepath.Join(workspace, sessionID) },
		MakeWorkspace: func(string) error { return nil },
		Model:         func(context.Context, session.Session) (llm.Model, error) { return r.model, nil },
		Backoff:       func(int) time.Duration { return 0 },
		Trial:         50 * time.Millisecond,
	}
	if o.change != nil {
		o.change(&opt)
	}
	r.svc = session.New(opt)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.svc.Run(ctx) }()
	var once sync.Once
	r.stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				t.Errorf("Run: %v", err)
			}
			b.Close()
			database.Close()
		})
	}
	t.Cleanup(r.stop)
	return r
}

func (r *rig) send(requestID, messageID string, q event.Queue, text string, change ...func(*event.RequestMessage)) {
	r.t.Helper()
	m := event.RequestMessage{Queue: q, MessageID: messageID, Messages: []chat.Message{chat.Text(chat.User, text)}}
	for _, f := range change {
		f(&m)
	}
	r.publish("cmd:"+messageID, requestID, m)
}

func (r *rig) cancel(requestID string, queued bool) {
	r.t.Helper()
	r.publish("cancel:"+requestID, requestID, event.RequestCancel{Reason: "Stopped by a person.", CancelQueued: queued})
}

func (r *rig) publish(id, requestID string, p event.Payload) {
	r.t.Helper()
	r.publishTo(sid, requestID, id, p)
}

func (r *rig) publishTo(sessionID, requestID, id string, p event.Payload) {
	r.t.Helper()
	e, err := event.New(event.Meta{ID: id, Time: time.Now(), Headers: event.RequestHeaders(requestID, sessionID, "web")}, p)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := r.bus.Publish(r.t.Context(), e); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) read(fn func(q db.Queryer) error) {
	r.t.Helper()
	if err := r.db.Read(context.Background(), fn); err != nil {
		r.t.Fatal(err)
	}
}

func waitUntil(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("timed out: %s", what)
		}
	}
}

// waitForEnd waits until the request has ended and returns it.
func (r *rig) waitForEnd(requestID string) session.Request {
	r.t.Helper()
	var req session.Request
	waitUntil(r.t, requestID+" ends", func() bool {
		err := r.db.Read(context.Background(), func(q db.Queryer) (err error) {
			req, err = r.store.Requests.Request(q, requestID)
			return err
		})
		return err == nil && req.State.Ended()
	})
	return req
}

func (r *rig) history() (out []session.HistoryMessage) {
	r.t.Helper()
	r.read(func(q db.Queryer) (err error) {
		out, err = r.store.History.Messages(q, sid, 0, "")
		return err
	})
	return out
}

func (r *rig) texts() (out []string) {
	for _, m := range r.history() {
		out = append(out, string(m.Message.Role)+": "+m.Message.Text())
	}
	return out
}

func (r *rig) events(topic event.Topic) (out []event.Event) {
	r.t.Helper()
	after := bus.Position("")
	for {
		page, err := r.bus.Fetch(context.Background(), topic, after, 500)
		if err != nil {
			r.t.Fatal(err)
		}
		for _, d := range page {
			out = append(out, d.Event)
			after = d.Position
		}
		if len(page) < 500 {
			return out
		}
	}
}

// states returns the published states of a request, in order.
func (r *rig) states(requestID string) (out []event.RequestState) {
	r.t.Helper()
	for _, e := range r.events(event.TopicRequest) {
		if p, err := event.Decode(e); err == nil && e.Headers.RequestID() == requestID {
			if l, ok := p.(event.RequestLifecycle); ok {
				out = append(out, l.State)
			}
		}
	}
	return out
}

// output rebuilds the text of a request from its topic and checks the invariants of the topic.
func (r *rig) output(requestID string) (text, final string) {
	r.t.Helper()
	events := r.events(event.OutputTopic(requestID))
	finals := 0
	for i, e := range events {
		p, err := event.Decode(e)
		if err != nil {
			r.t.Fatal(err)
		}
		switch p := p.(type) {
		case event.TextDelta:
			if p.Offset != int64(len(text)) {
				r.t.Errorf("%s: delta at offset %d, want %d", requestID, p.Offset, len(text))
			}
			text += p.Delta
		case event.TextReset:
			if p.Offset > int64(len(text)) {
				r.t.Fatalf("%s: reset to %d of %d bytes", requestID, p.Offset, len(text))
			}
			text = text[:p.Offset]
		case event.FinalText:
			finals++
			final = p.FinalText
			if i != len(events)-1 {
				r.t.Errorf("%s: response.text is not the last event", requestID)
			}
		}
	}
	if finals != 1 {
		r.t.Errorf("%s: %d final texts, want 1", requestID, finals)
	}
	if text != final {
		r.t.Errorf("%s: deltas give %q, finalText is %q", requestID, text, final)
	}
	r.checkFinalOutput(requestID, events)
	r.checkToolEnds(requestID, events)
	return text, final
}

// checkToolEnds requires that the output contains the end of each tool call of a request exactly
// once, in the order of the history and with the same results.
func (r *rig) checkToolEnds(requestID string, output []event.Event) {
	r.t.Helper()
	var want, got []string
	for _, e := range output {
		p, err := event.Decode(e)
		if err != nil {
			r.t.Fatal(err)
		}
		if shown, is := p.(event.ToolCallOutput); is && shown.Status == event.ToolEnd {
			got = append(got, fmt.Sprintf("%s %t %s", shown.ToolCallID, *shown.OK, shown.Output))
		}
	}
	for _, m := range r.history() {
		if m.RequestID != requestID {
			continue
		}
		for _, result := range m.Message.ToolResults() {
			text, failed := result.OutputText()
			want = append(want, fmt.Sprintf("%s %t %s", result.ToolCallID, !failed, text))
		}
	}
	if !slices.Equal(got, want) {
		r.t.Errorf("%s: the output has the tool ends %q, the history %q", requestID, got, want)
	}
}

// checkFinalOutput requires that the output of a request can be rebuilt from its journal.
func (r *rig) checkFinalOutput(requestID string, output []event.Event) {
	r.t.Helper()
	var want, got []string
	keep := func(p event.Payload, out *[]string) {
		switch p := p.(type) {
		case event.FinalText:
			p.Usage = nil
			*out = append(*out, fmt.Sprintf("%+v", p))
		case event.BinaryOutput:
			p.Path = "" // the path only informs people who inspect the workspace
			*out = append(*out, fmt.Sprintf("%+v", p))
		case event.OutputAnchor:
			*out = append(*out, fmt.Sprintf("%+v", p))
		}
	}
	for _, e := range output {
		p, err := event.Decode(e)
		if err != nil {
			r.t.Fatal(err)
		}
		keep(p, &want)
	}
	var said []event.Payload
	err := r.db.Read(r.t.Context(), func(q db.Queryer) (err error) {
		said, err = r.svc.FinalOutput(q, sid, requestID)
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
	for _, p := range said {
		keep(p, &got)
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		r.t.Errorf("%s: the output rebuilt from the journal is %q, want %q", requestID, got, want)
	}
}

// checkPaired fails unless every tool call in the history has exactly one result.
func (r *rig) checkPaired() {
	r.t.Helper()
	results := map[string]int{}
	var calls []string
	for _, m := range r.history() {
		for _, p := range m.Message.ToolCalls() {
			calls = append(calls, p.ToolCallID)
		}
		for _, p := range m.Message.ToolResults() {
			results[p.ToolCallID]++
		}
	}
	for _, id := range calls {
		if results[id] != 1 {
			r.t.Errorf("tool call %s has %d results", id, results[id])
		}
	}
}

// snapshots copies a data directory after every commit. Each copy is the state after a crash at that
// point.
type snapshots struct {
	t    *testing.T
	root string
	src  string

	mu   sync.Mutex
	on   bool
	dirs []string
}

func (s *snapshots) commit(done bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !done || !s.on {
		return
	}
	dst := filepath.Join(s.root, fmt.Sprint(len(s.dirs)))
	if err := os.Mkdir(dst, 0o700); err != nil {
		s.t.Error(err)
		return
	}
	files, err := os.ReadDir(s.src)
	if err != nil {
		s.t.Error(err)
	}
	for _, f := range files {
		if !f.Type().IsRegular() || filepath.Ext(f.Name()) == ".lock" || len(f.Name()) > 4 && f.Name()[len(f.Name())-4:] == "-shm" {
			continue
		}
		data, err := os.ReadFile(filepath.Join(s.src, f.Name()))
		if err != nil {
			s.t.Error(err)
			continue
		}
		if err := os.WriteFile(filepath.Join(dst, f.Name()), data, 0o600); err != nil {
			s.t.Error(err)
		}
	}
	s.dirs = append(s.dirs, dst)
}

func (s *snapshots) set(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.on = on
}

// counter is a tool that counts its runs.
type counter struct {
	mu   sync.Mutex
	runs int
	do   func(ctx context.Context) error
}

func (c *counter) Spec() tool.Spec {
	return tool.Spec{Name: "count", Description: "counts", Schema: json.RawMessage(`{"type":"object"}`)}
}

func (c *counter) Run(ctx context.Context, _ tool.Call) (tool.Result, error) {
	c.mu.Lock()
	c.runs++
	n := c.runs
	c.mu.Unlock()
	if c.do != nil {
		if err := c.do(ctx); err != nil {
			return tool.Result{}, err
		}
	}
	return tool.Result{Text: fmt.Sprintf("counted %d", n)}, nil
}

func callCount(id string) chat.Message {
	return chat.Message{Role: chat.Assistant, Parts: []chat.Part{chat.TextPart("counting"), chat.ToolCall(id, "count", json.RawMessage(`{}`))}}
}
