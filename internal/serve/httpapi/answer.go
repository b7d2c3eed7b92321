package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"lilac/internal/foundation/fault"
)

// handler answers a request or returns why it cannot.
type handler func(w http.ResponseWriter, r *http.Request) error

// maxBody bounds the body of a request that carries no files.
const maxBody = 1 << 20

// adapt makes a handler an http.Handler: errors are written and logged here
// and nowhere else.
func (a *api) adapt(h handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tw := &trackedWriter{ResponseWriter: w}
		if err := h(tw, r); err != nil {
			if tw.wrote {
				// A stream that broke: nobody is there to read an answer.
				a.Logger.DebugContext(r.Context(), "answer broke off", "path", r.URL.Path, "error", err)
				return
			}
			a.writeError(w, r, err)
		}
	})
}

// trackedWriter knows whether an answer has begun, and with which status.
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

func (a *api) writeError(w http.ResponseWriter, r *http.Request, err error) {
	wire := fault.ToWire(err)
	status := wire.Kind.HTTPStatus()
	tells := status >= 500 && r.Context().Err() == nil
	if tells && wire.Kind == fault.Unavailable {
		tells = a.outages.begins(wire.Message, a.Now())
	}
	if tells {
		a.Logger.ErrorContext(r.Context(), "request could not be answered", "method", r.Method, "path", r.URL.Path, "kind", wire.Kind, "error", err)
	}
	if wire.Code == "" {
		wire.Code = string(wire.Kind)
	}
	if e := (*fault.Error)(nil); errors.As(err, &e) && e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(e.RetryAfter.Seconds()+1)))
	}
	_ = writeJSON(w, status, struct {
		Error fault.Wire `json:"error"`
	}{wire})
}

func writeJSON(w http.ResponseWriter, status int, v any) error {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fault.Wrap(fault.Internal, err, "The answer could not be encoded.")
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(buf.Len()))
	w.WriteHeader(status)
	_, err := w.Write(buf.Bytes())
	return err
}

// readBody reads at most limit bytes.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, fault.New(fault.TooLarge, "The body is larger than %d bytes.", limit)
	case err != nil:
		return nil, fault.Wrap(fault.Invalid, err, "The body could not be read.")
	}
	return body, nil
}

// decode reads exactly one JSON object into v. An empty body is {} when
// optional says so.
func decode(body []byte, v any, optional bool) error {
	body = bytes.TrimSpace(body)
	if len(body) == 0 {
		if optional {
			return nil
		}
		return fault.New(fault.Invalid, "The body is empty; it has to be a JSON object.")
	}
	if body[0] != '{' {
		return fault.New(fault.Invalid, "The body has to be a JSON object.")
	}
	if !utf8.Valid(body) { // what is none would be taken in as other characters
		return fault.New(fault.Invalid, "The body is not UTF-8.")
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return decodeError(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return fault.New(fault.Invalid, "The body goes on after its JSON object.")
	}
	return nil
}

func decodeError(err error) error {
	var syntax *json.SyntaxError
	var shape *json.UnmarshalTypeError
	switch {
	case errors.As(err, &shape):
		f := fault.InvalidField(shape.Field, "%s has to be of type %s, not %s.", orBody(shape.Field), plainType(shape.Type.String()), shape.Value)
		f.Err = err
		return f
	case errors.As(err, &syntax):
		return fault.Wrap(fault.Invalid, err, "The body is not JSON (at byte %d).", syntax.Offset)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fault.Wrap(fault.Invalid, err, "The body is not JSON: it ends too early.")
	}
	// The standard library has no type for this error.
	if quoted, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		name, uerr := strconv.Unquote(quoted)
		if uerr != nil {
			name = quoted
		}
		f := fault.InvalidField(name, "There is no field %q.", name)
		f.Code = "unknown_field"
		return f
	}
	return fault.Wrap(fault.Invalid, err, "The body is not what this route takes.")
}

func orBody(field string) string {
	if field == "" {
		return "The body"
	}
	return field
}

func plainType(goType string) string {
	switch {
	case strings.HasPrefix(goType, "[]"):
		return "list"
	case strings.HasPrefix(goType, "int"):
		return "whole number"
	case goType == "bool":
		return "boolean"
	case strings.Contains(goType, "."), strings.HasPrefix(goType, "struct"):
		if strings.HasSuffix(goType, "Queue") {
			return "string"
		}
		return "object"
	}
	return goType
}

// page size of lists.
const (
	defaultLimit = 50
	maxLimit     = 1000
)

func limitOf(r *http.Request) (int, error) {
	raw := r.URL.Query().Get("limit")
	if raw == "" {
		return defaultLimit, nil
	}
	n, err := strconv.Atoi(raw)
	if err != nil || n < 1 || n > maxLimit {
		return 0, fault.InvalidField("limit", "limit has to be a number from 1 to %d.", maxLimit)
	}
	return n, nil
}

// pageOf is a page of a list, of whom one more than limit was asked for: next is the
// place of its last one, if something follows.
func pageOf[T any](found []T, limit int, place func(T) string) (page []T, next string) {
	if len(found) <= limit {
		return append([]T{}, found...), ""
	}
	return found[:limit], place(found[limit-1])
}

// flagOf reads a query parameter that is 1 or true, 0 or false.
func flagOf(r *http.Request, name string) (bool, error) {
	raw := r.URL.Query().Get(name)
	if raw == "" {
		return false, nil
	}
	v, err := strconv.ParseBool(raw)
	if err != nil {
		return false, fault.InvalidField(name, "%s has to be 1 or 0.", name)
	}
	return v, nil
}

// onlyQuery refuses query parameters that a route does not know, so that a
// misspelled one is not silently ignored. Nor is one that cannot be read: what
// was to be left out of a list would be in it.
func onlyQuery(r *http.Request, known ...string) error {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return fault.Wrap(fault.Invalid, err, "The query of this address cannot be read: write %%25 for %% and %%3B for ;")
	}
	for name := range query {
		ok := false
		for _, k := range known {
			ok = ok || k == name
		}
		if !ok {
			f := fault.InvalidField(name, "There is no query parameter %q.", name)
			f.Code = "unknown_field"
			return f
		}
	}
	return nil
}
