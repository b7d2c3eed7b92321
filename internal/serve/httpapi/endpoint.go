package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"reflect"
	"strconv"
	"time"

	"lilac/internal/foundation/fault"
)

// handler answers a request, or returns the error to answer with.
type handler func(w http.ResponseWriter, r *http.Request) error

// endpoint is the code behind a route, with the types of its request and
// response bodies. The constructors below take the types from the function that
// they wrap, so /openapi.json cannot disagree with the code.
type endpoint struct {
	// handle returns the handler that answers success with status.
	handle            func(status int) handler
	request, response reflect.Type // nil for no body
	optionalBody      bool
	// media is the type of a response body that is not JSON.
	media string
}

// reply is an endpoint without a request body.
func reply[Out any](f func(*http.Request) (Out, error)) endpoint {
	return endpoint{response: reflect.TypeFor[Out](), handle: func(status int) handler {
		return func(w http.ResponseWriter, r *http.Request) error {
			out, err := f(r)
			if err != nil {
				return err
			}
			return writeJSON(w, status, out)
		}
	}}
}

// body limits a JSON request body.
type body struct {
	bytes    int64
	optional bool // an empty body means {}
}

var (
	requiredBody = body{bytes: maxBody}
	optionalBody = body{bytes: maxBody, optional: true}
)

// replyTo is an endpoint with a JSON request body.
func replyTo[In, Out any](b body, f func(*http.Request, In) (Out, error)) endpoint {
	return endpoint{request: reflect.TypeFor[In](), response: reflect.TypeFor[Out](), optionalBody: b.optional, handle: func(status int) handler {
		return func(w http.ResponseWriter, r *http.Request) error {
			in, err := readJSON[In](w, r, b)
			if err != nil {
				return err
			}
			out, err := f(r, in)
			if err != nil {
				return err
			}
			return writeJSON(w, status, out)
		}
	}}
}

// noContent is an endpoint without any body.
func noContent(f func(*http.Request) error) endpoint {
	return endpoint{handle: func(status int) handler {
		return func(w http.ResponseWriter, r *http.Request) error {
			if err := f(r); err != nil {
				return err
			}
			w.WriteHeader(status)
			return nil
		}
	}}
}

// direct is an endpoint that writes its own response of a type that is not JSON.
func direct(media string, h handler) endpoint {
	return endpoint{media: media, handle: func(int) handler { return h }}
}

// directJSON is an endpoint that reads and writes the JSON of these types itself.
// None stands for no body.
func directJSON[In, Out any](h handler) endpoint {
	e := direct("", h)
	if in := reflect.TypeFor[In](); in != reflect.TypeFor[none]() {
		e.request = in
	}
	e.response = reflect.TypeFor[Out]()
	return e
}

type none struct{}

// optional allows an empty request body.
func (e endpoint) optional() endpoint {
	e.optionalBody = true
	return e
}

// errorWriter is the only code that writes and logs the errors of handlers.
type errorWriter struct {
	log     *slog.Logger
	now     func() time.Time
	outages outages
}

// adapt makes an http.Handler of a handler.
func (e *errorWriter) adapt(h handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tw := &trackedWriter{ResponseWriter: w}
		if err := h(tw, r); tw.wrote && err != nil {
			e.note(r, err)
		} else if err != nil {
			e.write(w, r, err)
		}
	})
}

// note logs the error of a response that has begun (usually a stream whose client left), so that
// there is no way to send it.
func (e *errorWriter) note(r *http.Request, err error) {
	e.log.DebugContext(r.Context(), "response ended early", "path", r.URL.Path, "error", err)
}

// errorBody is the body of every error response.
type errorBody struct {
	Error fault.Wire `json:"error"`
}

func (e *errorWriter) write(w http.ResponseWriter, r *http.Request, err error) {
	wire := fault.ToWire(err)
	status := wire.Kind.HTTPStatus()
	logged := status >= 500 && r.Context().Err() == nil
	if logged && wire.Kind == fault.Unavailable {
		logged = e.outages.begins(wire.Message, e.now())
	}
	if logged {
		e.log.ErrorContext(r.Context(), "request failed", "method", r.Method, "path", r.URL.Path, "kind", wire.Kind, "error", err)
	}
	if wire.Code == "" {
		wire.Code = string(wire.Kind)
	}
	if f := (*fault.Error)(nil); errors.As(err, &f) && f.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(f.RetryAfter.Seconds()+1)))
	}
	_ = writeJSON(w, status, errorBody{wire})
}

func writeJSON(w http.ResponseWriter, status int, v any) error {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fault.Wrap(fault.Internal, err, "The response could not be encoded.")
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(buf.Len()))
	w.WriteHeader(status)
	_, err := w.Write(buf.Bytes())
	return err
}

// trackedWriter records whether a response has begun, and its status.
type trackedWriter struct {
	http.ResponseWriter
	wrote  bool
	status int
}

func (t *trackedWriter) WriteHeader(code int) {
	if !t.wrote {
		t.status = code
	}
	t.wrote = true
	t.ResponseWriter.WriteHeader(code)
}

func (t *trackedWriter) Write(p []byte) (int, error) {
	if !t.wrote {
		t.status = http.StatusOK
	}
	t.wrote = true
	return t.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController reach the connection.
func (t *trackedWriter) Unwrap() http.ResponseWriter { return t.ResponseWriter }
