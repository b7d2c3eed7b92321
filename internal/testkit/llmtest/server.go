package llmtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"
)

// Options configures a server. The zero value works.
type Options struct {
	// Addr is the address to listen on; empty means a free loopback port.
	Addr string
	// Answer returns the script for a request; nil answers "Hello.". It is called
	// from several goroutines.
	Answer func(Request) Script
	// AllowChanges accepts calls that change a conversation before an earlier answer, and
	// only counts them. By default, the server refuses them.
	AllowChanges bool
	// AllowInvalid accepts bodies that the providers refuse: with unknown fields, or calls of
	// tools without results. By default, the server refuses them.
	AllowInvalid bool
	// Host makes the server speak that dialect of chat completions, and refuse what the host
	// refuses, instead of checking bodies against OpenAI's description.
	Host *Host
	// BillCache makes the server report usage like a provider with a prompt cache: the
	// input is the size of the request, and what an earlier request began with is read from
	// the cache.
	BillCache bool
	// DiscardRequests disables recording, for long load tests.
	DiscardRequests bool
}

// maxBody bounds a request in bytes, maxKept the number of recorded requests.
const (
	maxBody = 64 << 20
	maxKept = 10_000
)

// Server is a running fake provider.
type Server struct {
	// URL is the base URL, without /v1.
	URL string

	answer          func(Request) Script
	options         Options
	discardRequests bool
	http            http.Server
	served          chan struct{}

	mu       sync.Mutex // guards the fields below
	n        int
	requests []Request
	signed   signatures
	growth   growth
	changes  []string
	invalid  []string
	refused  []string
	cache    cache
}

// Start starts a server.
func Start(o Options) (*Server, error) {
	if o.Addr == "" {
		o.Addr = "127.0.0.1:0"
	}
	if o.Answer == nil {
		o.Answer = func(Request) Script { return Say("Hello.") }
	}
	l, err := net.Listen("tcp", o.Addr)
	if err != nil {
		return nil, fmt.Errorf("listen for the fake provider: %w", err)
	}
	s := &Server{URL: "http://" + l.Addr().String(), answer: o.Answer, options: o, discardRequests: o.DiscardRequests, served: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/messages", func(w http.ResponseWriter, r *http.Request) { s.serve(Anthropic, w, r) })
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) { s.serve(OpenAI, w, r) })
	mux.HandleFunc("POST /v1/responses", func(w http.ResponseWriter, r *http.Request) { s.serve(Responses, w, r) })
	s.http.Handler = mux
	go func() {
		defer close(s.served)
		_ = s.http.Serve(l) // always returns ErrServerClosed
	}()
	return s, nil
}

// Close stops the server and breaks every open stream.
func (s *Server) Close() error {
	err := s.http.Close()
	<-s.served
	return err
}

// New starts a server that is closed when the test ends. A nil answer says "Hello.". Unless the
// options allow it, a call that changes its conversation fails the test.
func New(t testing.TB, answer func(Request) Script, change ...func(*Options)) *Server {
	t.Helper()
	options := Options{Answer: answer}
	for _, f := range change {
		f(&options)
	}
	s, err := Start(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		for _, change := range s.Changes() {
			if options.AllowChanges {
				break
			}
			t.Errorf("a call to the model changed its conversation: %s", change)
		}
		for _, problem := range s.Invalid() {
			t.Errorf("a call to the model has an invalid body: %s", problem)
		}
	})
	return s
}

// Invalid lists the calls that the server refused because of their bodies.
func (s *Server) Invalid() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.invalid)
}

// checkBody returns what is invalid in the body of a call, or "".
func (s *Server) checkBody(req Request) string {
	if s.options.DiscardRequests || s.options.AllowInvalid {
		return ""
	}
	err := s.options.check(req)
	if err == nil {
		return ""
	}
	problem := fmt.Sprintf("request %d: %v", req.N, err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.invalid = append(s.invalid, problem)
	return problem
}

// check reports what is invalid in a body that a host has not refused.
func (o Options) check(req Request) error {
	if o.Host == nil {
		return CheckBody(req.Protocol, req.Body)
	}
	if unknown := o.Host.Unknown(req.Body); unknown != "" {
		return errors.New("a field that the host ignores: " + unknown)
	}
	return checkResults(req.Protocol, req.Body)
}

// Refused lists the refusals of the host, which the caller is expected to learn from.
func (s *Server) Refused() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.refused)
}

// refuse answers a call that the host does not accept, and reports whether it did.
func (s *Server) refuse(w http.ResponseWriter, req Request) bool {
	if s.options.Host == nil {
		return false
	}
	status, body := s.options.Host.Refuse(req.Body)
	if status == 0 {
		return false
	}
	s.mu.Lock()
	s.refused = append(s.refused, body)
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body) // the caller may have disconnected
	return true
}

// Changes lists the calls that changed a conversation before an earlier answer.
func (s *Server) Changes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.changes)
}

// checkGrowth returns what a call changes in its conversation, or "". It also fills in the
// usage if the server bills its cache.
func (s *Server) checkGrowth(req Request, script *Script) string {
	if s.options.DiscardRequests || script.Status != 0 && script.Status != http.StatusOK {
		return ""
	}
	c := conversationOf(req.Protocol, req.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	if change := s.growth.check(req.Model, c); change != "" {
		s.changes = append(s.changes, fmt.Sprintf("request %d: %s", req.N, change))
		if !s.options.AllowChanges {
			return change
		}
	}
	s.growth.record(req.Model, c, *script)
	if s.options.BillCache {
		script.Usage = s.cache.bill(req.Protocol, c)
	}
	return ""
}

// Requests returns the requests received so far, at most the first ten thousand.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Count returns the number of requests received.
func (s *Server) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n
}

func (s *Server) record(r *Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
	r.N = s.n
	if !s.discardRequests && len(s.requests) < maxKept {
		s.requests = append(s.requests, *r)
	}
}

func (s *Server) serve(protocol Protocol, w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		return // the caller has disconnected
	}
	at := time.Now()
	req, err := decode(protocol, body)
	if err != nil {
		writeError(w, protocol, Script{Status: 400, ErrorType: "invalid_request_error", ErrorMessage: "The body is not JSON: " + err.Error()})
		return
	}
	req.At, req.Header = at, r.Header.Clone()
	s.record(&req)
	if s.refuse(w, req) {
		return
	}
	if problem := s.checkBody(req); problem != "" {
		writeError(w, protocol, Script{Status: 400, ErrorType: "invalid_request_error", ErrorMessage: problem})
		return
	}
	script := s.answer(req)
	if change := s.checkGrowth(req, &script); change != "" {
		writeError(w, protocol, Script{Status: 400, ErrorType: "invalid_request_error", ErrorMessage: change})
		return
	}
	if protocol == Anthropic && (script.Status == 0 || script.Status == http.StatusOK) {
		if at := s.checkSignatures(body, script); at != "" {
			writeError(w, protocol, Script{Status: 400, ErrorType: "invalid_request_error", ErrorMessage: at + ": Invalid `signature` in `thinking` block"})
			return
		}
	}
	out := &stream{w: w, control: http.NewResponseController(w), done: r.Context().Done(), script: script, host: s.options.Host}
	out.pause(script.Wait)
	switch {
	case script.Reset:
		out.breakConnection()
	case script.Status != 0 && script.Status != http.StatusOK:
		writeError(w, protocol, script)
	default:
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusOK)
		switch protocol {
		case Anthropic:
			out.anthropic(req)
		case Responses:
			out.responses(req)
		default:
			out.openai(req)
		}
	}
}

func writeError(w http.ResponseWriter, protocol Protocol, s Script) {
	if s.RetryAfter != "" {
		w.Header().Set("Retry-After", s.RetryAfter)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(s.Status)
	_, _ = w.Write(errorBody(protocol, s)) // the caller may have disconnected
}

func errorBody(protocol Protocol, s Script) []byte {
	inner := map[string]any{"type": s.ErrorType, "message": s.ErrorMessage}
	outer := map[string]any{"error": inner}
	switch {
	case protocol == Anthropic:
		outer["type"], outer["request_id"] = "error", "req_fake"
		if s.ErrorCode != "" {
			inner["details"] = map[string]any{"error_code": s.ErrorCode}
		}
	case s.ErrorCode != "":
		inner["code"] = s.ErrorCode
	}
	return encode(outer)
}

// stream writes one answer. After an error it writes nothing more.
type stream struct {
	w       io.Writer
	control *http.ResponseController
	done    <-chan struct{}
	script  Script
	host    *Host // nil for OpenAI's own dialect
	sent    int
	err     error
}

var errCut = errors.New("the script cuts the stream")

// event writes one event; name is empty in OpenAI's protocol.
func (s *stream) event(name string, data []byte) {
	if s.err != nil {
		return
	}
	var frame []byte
	if name != "" {
		frame = append(frame, "event: "+name+"\n"...)
	}
	frame = append(append(append(frame, "data: "...), data...), "\n\n"...)
	s.write(frame)
}

func (s *stream) write(frame []byte) {
	if s.err != nil {
		return
	}
	cut := s.script.CutAfter
	if cut > 0 && s.sent+len(frame) > cut {
		frame = frame[:max(0, cut-s.sent)]
	}
	n, err := s.w.Write(frame)
	s.sent += n
	if err == nil {
		err = s.control.Flush()
	}
	s.err = err
	if err == nil && cut > 0 && s.sent >= cut {
		s.breakConnection()
	}
}

// breakConnection closes the connection without ending the response.
func (s *stream) breakConnection() {
	s.err = errCut
	conn, _, err := s.control.Hijack()
	if err == nil {
		_ = conn.Close() // the caller sees a broken connection
	}
}

func (s *stream) pause(d time.Duration) {
	if d <= 0 || s.err != nil {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.done:
		s.err = errCut
	}
}

func (s *stream) hang() {
	if s.err == nil {
		<-s.done
		s.err = errCut
	}
}

// encode encodes a value from a script. If a script holds invalid JSON, the answer
// says so.
func encode(v any) []byte {
	out, err := json.Marshal(v)
	if err != nil {
		return []byte(`{"llmtest":"the script holds invalid JSON"}`)
	}
	return out
}
