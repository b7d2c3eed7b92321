package toolserver

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/text"
	"lilac/internal/serve/origin"
	"lilac/internal/serve/toolwire"
)

const (
	// maxInput bounds the body of a call, maxValue what it answers.
	maxInput = 1 << 20
	maxValue = 4 << 20
	// maxTogether bounds the calls that run at once, of all callers.
	maxTogether = 64
	// maxNamed and maxDetail bound what a record repeats of a caller's words, in
	// characters.
	maxNamed  = 128
	maxDetail = 1000
	// recordTime bounds writing down how a call ended, also when it was cancelled.
	recordTime = 5 * time.Second
)

// Record is one line of what was called.
type Record struct {
	Caller   Caller
	Callable string
	// SessionID is the session that the call is about: as it was named before
	// it ran, its id after; "" is the caller's own.
	SessionID string
	// Outcome is [Started], ok, or the kind of the fault; Message is its sentence.
	Outcome string
	Message string
	Took    time.Duration
}

// Started is the outcome of a record that was made before the call.
const Started = "started"

// Options are what a [Server] is made of.
type Options struct {
	Callables []Callable
	// Alive reports whether what a token was minted for goes on: its task if it
	// has one, else its request.
	Alive func(Grant) bool
	// Record writes down a call. A call that changes something is not made when
	// its beginning could not be written. It may be nil.
	Record func(ctx context.Context, r Record) error
	// Operators are the tokens of operators; nil means that there are none.
	// Calls with them are recorded there.
	Operators *Operators
	Logger    *slog.Logger

	// unchecked turns the checks of origin off, unbound those of what a token
	// is for. They are there for the tests that show what the checks are good for.
	unchecked, unbound bool
}

// Server answers calls.
type Server struct {
	o         Options
	callables map[string]Callable
	tokens    tokens
	together  chan struct{}
}

// New returns a server of the callables. An error is a defect in one of them;
// one in a schema is an error of [Server.Check], and of the calls.
func New(o Options) (*Server, error) {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Record == nil {
		o.Record = func(context.Context, Record) error { return nil }
	}
	s := &Server{o: o, callables: map[string]Callable{}, together: make(chan struct{}, maxTogether)}
	s.tokens.live, s.tokens.operators = map[[sha256.Size]byte]*liveToken{}, map[[sha256.Size]byte]*liveToken{}
	for _, c := range o.Callables {
		if !callableID.MatchString(c.ID) || c.run == nil {
			return nil, fmt.Errorf("callable %q needs an id of words separated by dots, and a function to run", c.ID)
		}
		if _, twice := s.callables[c.ID]; twice {
			return nil, fmt.Errorf("there are two callables %q", c.ID)
		}
		s.callables[c.ID] = c
	}
	if o.Operators != nil {
		o.Operators.Revoked, o.Operators.callables = s.revoked, slices.Sorted(maps.Keys(s.callables))
	}
	return s, nil
}

// Check derives the schema of every callable and returns what is wrong with them.
func (s *Server) Check() error {
	var errs []error
	for _, c := range s.callables {
		_, err := c.Schema()
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Handler serves the routes. The listener decides who reaches it: a Unix socket
// of our user, or loopback.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		s.write(w, http.StatusOK, map[string]string{"status": toolwire.OK})
	})
	mux.HandleFunc("GET /list", s.known(func(_ *http.Request, live *liveToken) (any, error) {
		return toolwire.Listing{Callables: s.allowed(live.grant)}, nil
	}))
	mux.HandleFunc("GET /help/{callable}", s.known(func(r *http.Request, live *liveToken) (any, error) {
		c, err := s.lookup(live.grant, r.PathValue("callable"))
		if err != nil {
			return nil, err
		}
		return c.help()
	}))
	mux.HandleFunc("POST /call", s.known(s.call))
	mux.HandleFunc("/", s.known(func(r *http.Request, _ *liveToken) (any, error) {
		return nil, fault.New(fault.NotFound, "There is no route %s %s: there are GET /list, GET /help/{callable}, POST /call and GET /healthz.", r.Method, r.URL.Path)
	}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if err := origin.Check(r, func(string) bool { return false }); err != nil && !s.o.unchecked {
			s.refuse(w, r, err)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

type answerer func(r *http.Request, live *liveToken) (any, error)

// known asks for a token, whatever the route.
func (s *Server) known(next answerer) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if !strings.EqualFold(scheme, "Bearer") {
			token = ""
		}
		live, err := s.identify(r.Context(), token)
		if err != nil {
			s.refuse(w, r, err)
			return
		}
		value, err := next(r, live)
		if err != nil {
			s.refuse(w, r, err)
			return
		}
		s.write(w, http.StatusOK, value)
	}
}

func (s *Server) call(r *http.Request, live *liveToken) (any, error) {
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxInput))
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return nil, fault.New(fault.TooLarge, "The call is larger than %d bytes.", maxInput)
	}
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "The call could not be read.")
	}
	var call toolwire.Call
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&call); err != nil {
		return nil, fault.Wrap(fault.Invalid, err, `A call is a JSON object: {"callableId": "…", "input": {…}}.`)
	}
	c, err := s.lookup(live.grant, call.CallableID)
	if err != nil {
		return nil, s.refused(r.Context(), live, call, err)
	}
	input, err := c.normalize(call.Input)
	if err != nil {
		return nil, s.refused(r.Context(), live, call, err)
	}
	end, err := s.begin(live)
	if err != nil {
		return nil, err
	}
	defer end()
	select {
	case s.together <- struct{}{}:
		defer func() { <-s.together }()
	default:
		return nil, fault.New(fault.Unavailable, "Too many calls run at once; try again in a moment.")
	}
	ctx, cancel := context.WithTimeoutCause(r.Context(), c.Time,
		&fault.Error{Kind: fault.Timeout, Message: fmt.Sprintf("%s took longer than %s and was given up.", c.ID, c.Time)})
	defer cancel()
	if !live.until.IsZero() {
		var end context.CancelFunc
		ctx, end = context.WithDeadlineCause(ctx, live.until, errExpired)
		defer end()
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(live.over, func() { stop(context.Cause(live.over)) })()
	value, err := s.recorded(ctx, Caller{live.grant}, c, input)
	if err != nil {
		return nil, err
	}
	return toolwire.Answer{Status: toolwire.OK, Value: value}, nil
}

// refused records a call that cannot be made, and returns why. It counts as one:
// a command in a loop must not fill the story.
func (s *Server) refused(ctx context.Context, live *liveToken, call toolwire.Call, why error) error {
	end, err := s.begin(live)
	if err != nil {
		return err
	}
	end()
	s.note(ctx, Record{Caller: Caller{live.grant}, Callable: text.TruncateRunes(call.CallableID, maxNamed), SessionID: sessionNamed(call.Input)}, why)
	return why
}

// recorded runs a call between its records.
func (s *Server) recorded(ctx context.Context, caller Caller, c Callable, input json.RawMessage) (json.RawMessage, error) {
	about := &subject{sessionID: sessionNamed(input)}
	ctx = context.WithValue(ctx, subjectKey{}, about)
	record := Record{Caller: caller, Callable: c.ID, Outcome: Started, SessionID: about.sessionID}
	if c.Changes {
		if err := s.writer(caller)(ctx, record); err != nil {
			return nil, fmt.Errorf("record call: %w", err)
		}
	}
	began := time.Now()
	value, err := s.run(ctx, caller, c, input)
	record.Took, record.SessionID = time.Since(began), about.sessionID
	s.note(ctx, record, err)
	return value, err
}

// writer is where the calls of a caller are recorded.
func (s *Server) writer(caller Caller) func(context.Context, Record) error {
	if caller.Operator != "" {
		return s.o.Operators.Record
	}
	return s.o.Record
}

// note records how a call ended, also one that was cancelled.
func (s *Server) note(ctx context.Context, record Record, err error) {
	record.Outcome = toolwire.OK
	if err != nil {
		wire := fault.ToWire(err)
		record.Outcome, record.Message = string(wire.Kind), text.TruncateRunes(wire.Message, maxDetail)
	}
	caller := record.Caller
	s.o.Logger.InfoContext(ctx, "tool called", "callable", record.Callable, "request_id", caller.RequestID, "session_id", caller.SessionID,
		"operator", caller.Operator, "about", record.SessionID, "outcome", record.Outcome, "took_ms", record.Took.Milliseconds())
	rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTime)
	defer cancel()
	if err := s.writer(caller)(rctx, record); err != nil {
		s.o.Logger.ErrorContext(ctx, "the outcome of a tool call was not recorded", "callable", record.Callable, "request_id", caller.RequestID, "error", err)
	}
}

func (s *Server) run(ctx context.Context, caller Caller, c Callable, input json.RawMessage) (out json.RawMessage, err error) {
	defer func() {
		if p := recover(); p != nil {
			out, err = nil, fmt.Errorf("callable %s panicked: %v\n%s", c.ID, p, debug.Stack())
		}
	}()
	value, err := c.run(ctx, caller, input)
	if ctx.Err() != nil && err != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	if out, err = encode(value); err != nil {
		return nil, fmt.Errorf("encode what %s answered: %w", c.ID, err)
	}
	if len(out) > maxValue {
		return nil, fault.New(fault.TooLarge, "The answer has %d bytes, more than %d: ask for less at once.", len(out), maxValue)
	}
	return out, nil
}

func encode(v any) (json.RawMessage, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSpace(buf.Bytes()), err
}

// refuse answers an error; what nobody was told is logged here and nowhere else.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	wire := fault.ToWire(err)
	wire.Code = cmp.Or(wire.Code, string(wire.Kind))
	if wire.Kind == fault.Internal {
		s.o.Logger.ErrorContext(r.Context(), "tool call could not be answered", "path", r.URL.Path, "error", err)
	}
	s.write(w, wire.Kind.HTTPStatus(), toolwire.Answer{Status: toolwire.Error, Error: &wire})
}

func (s *Server) write(w http.ResponseWriter, status int, v any) {
	data, err := encode(v)
	if err != nil {
		s.o.Logger.Error("an answer could not be encoded", "error", err)
		status, data = http.StatusInternalServerError, []byte(`{"status":"error","error":{"kind":"internal","message":"The answer could not be encoded.","retryable":false}}`)
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(append(data, '\n')) // a caller that has gone needs no answer
}
