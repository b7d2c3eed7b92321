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
	// maxInput bounds the body of a call, and maxValue its result, in bytes.
	maxInput = 1 << 20
	maxValue = 4 << 20
	// maxTogether bounds the calls of all callers that run at once.
	maxTogether = 64
	// maxNamed and maxDetail bound the caller's text in a record, in characters.
	maxNamed  = 128
	maxDetail = 1000
	// recordTime limits recording the outcome of a call, also of a cancelled one.
	recordTime = 5 * time.Second
)

// Record is the record of one call.
type Record struct {
	Caller   Caller
	Callable string
	// SessionID is the session that the call is about: as the input names it before
	// the call, its id afterwards. "" is the caller's own session.
	SessionID string
	// Outcome is [Started], ok, or the kind of the fault; Message is the fault's message.
	Outcome string
	Message string
	Took    time.Duration
}

// Started is the outcome in a record that was made before the call.
const Started = "started"

// Options configure a [Server].
type Options struct {
	Callables []Callable
	// Source has further callables; nil means none.
	Source Source
	// Alive reports whether the task of a token, or else its request, is still running.
	Alive func(Grant) bool
	// Record stores the record of a call. A call that changes something does not run if
	// its start cannot be recorded. It may be nil.
	Record func(ctx context.Context, r Record) error
	// Permit decides about a call before it runs; nil permits all.
	Permit func(ctx context.Context, caller Caller, callable string, input json.RawMessage) error
	// Operators are the tokens of operators, and the records of calls with them; nil
	// means that there are none.
	Operators *Operators
	Logger    *slog.Logger

	// unchecked disables the checks of the origin, and unbound the checks of a token's
	// grant. Only tests set them, to prove that the checks matter.
	unchecked, unbound bool
}

// Server serves callables.
type Server struct {
	o         Options
	callables map[string]Callable
	tokens    tokens
	together  chan struct{}
}

// New returns a server of the callables. It fails if one of them is defective. Defects of
// schemas are reported by [Server.Check] and by calls, because deriving all schemas
// would slow down the start.
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
		o.Operators.Revoked, o.Operators.callables, o.Operators.foreign = s.revoked, slices.Sorted(maps.Keys(s.callables)), s.prefix()
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

// Handler serves the routes. The listener limits the clients: a Unix socket of the same
// user, or loopback.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		s.write(w, http.StatusOK, map[string]string{"status": toolwire.OK})
	})
	mux.HandleFunc("GET /list", s.known(func(r *http.Request, live *liveToken) (any, error) {
		s.settle(r.Context())
		return toolwire.Listing{Callables: s.allowed(live.grant)}, nil
	}))
	mux.HandleFunc("GET /help/{callable}", s.known(func(r *http.Request, live *liveToken) (any, error) {
		if strings.HasPrefix(r.PathValue("callable"), s.prefix()) {
			s.settle(r.Context())
		}
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

// prefix returns the beginning of the ids of the source, or a text that begins no id.
func (s *Server) prefix() string {
	if s.o.Source == nil {
		return "/"
	}
	return s.o.Source.Prefix()
}

// settle waits for a source that starts.
func (s *Server) settle(ctx context.Context) {
	if s.o.Source != nil {
		ctx, cancel := context.WithTimeout(ctx, settleTime)
		defer cancel()
		s.o.Source.Settle(ctx)
	}
}

type answerer func(r *http.Request, live *liveToken) (any, error)

// known requires a valid token on every route.
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
	value, err := s.do(r.Context(), live, call, nil)
	if err != nil {
		return nil, err
	}
	return toolwire.Answer{Status: toolwire.OK, Value: value}, nil
}

// do makes a call with a token, within its rights and limits. show, if it is not nil, gets
// the progress instead of the command that the token belongs to.
func (s *Server) do(ctx context.Context, live *liveToken, call toolwire.Call, show func(line string)) (json.RawMessage, error) {
	if strings.HasPrefix(call.CallableID, s.prefix()) {
		s.settle(ctx)
	}
	c, err := s.lookup(live.grant, call.CallableID)
	if err != nil {
		return nil, s.refused(ctx, live, call, err)
	}
	input, err := c.normalize(call.Input)
	if err != nil {
		return nil, s.refused(ctx, live, call, err)
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
	ctx, cancel := context.WithTimeoutCause(ctx, c.Time,
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
	caller := Caller{live.grant}
	if show != nil {
		caller.Progress = show
	}
	return s.recorded(ctx, caller, c, input)
}

// refused records a call that cannot run, and returns the reason. It counts as a call, so
// that a command in a loop cannot fill the history of its request.
func (s *Server) refused(ctx context.Context, live *liveToken, call toolwire.Call, why error) error {
	end, err := s.begin(live)
	if err != nil {
		return err
	}
	end()
	s.note(ctx, Record{Caller: Caller{live.grant}, Callable: text.TruncateRunes(call.CallableID, maxNamed), SessionID: sessionNamed(call.Input)}, why)
	return why
}

// recorded runs a call and records it, before and after.
func (s *Server) recorded(ctx context.Context, caller Caller, c Callable, input json.RawMessage) (json.RawMessage, error) {
	about := &subject{sessionID: sessionNamed(input)}
	ctx = context.WithValue(ctx, subjectKey{}, about)
	record := Record{Caller: caller, Callable: c.ID, Outcome: Started, SessionID: about.sessionID}
	if s.o.Permit != nil {
		if err := s.o.Permit(ctx, caller, c.ID, input); err != nil {
			s.note(ctx, record, err)
			return nil, err
		}
	}
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

// writer returns the function that records the calls of a caller.
func (s *Server) writer(caller Caller) func(context.Context, Record) error {
	if caller.Operator != "" {
		return s.o.Operators.Record
	}
	return s.o.Record
}

// note records the outcome of a call, also of a cancelled one.
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
		s.o.Logger.ErrorContext(ctx, "cannot record the outcome of a tool call", "callable", record.Callable, "request_id", caller.RequestID, "error", err)
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
		return nil, fmt.Errorf("encode the result of %s: %w", c.ID, err)
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

// refuse sends an error. Internal errors, which the caller does not see, are logged here.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	wire := fault.ToWire(err)
	wire.Code = cmp.Or(wire.Code, string(wire.Kind))
	if wire.Kind == fault.Internal {
		s.o.Logger.ErrorContext(r.Context(), "tool call failed", "path", r.URL.Path, "error", err)
	}
	s.write(w, wire.Kind.HTTPStatus(), toolwire.Answer{Status: toolwire.Error, Error: &wire})
}

func (s *Server) write(w http.ResponseWriter, status int, v any) {
	data, err := encode(v)
	if err != nil {
		s.o.Logger.Error("cannot encode a response", "error", err)
		status, data = http.StatusInternalServerError, []byte(`{"status":"error","error":{"kind":"internal","message":"The answer could not be encoded.","retryable":false}}`)
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(append(data, '\n')) // a caller that disconnected needs no response
}
