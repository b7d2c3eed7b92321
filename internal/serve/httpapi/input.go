package httpapi

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"lilac/internal/foundation/fault"
)

// maxBody limits a request body that carries no files, in bytes.
const maxBody = 1 << 20

// readBody reads a request body of at most limit bytes.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, fault.New(fault.TooLarge, "The body is larger than %d bytes.", limit)
	case err != nil:
		return nil, fault.Wrap(fault.Invalid, err, "The body could not be read.")
	}
	return raw, nil
}

func readJSON[T any](w http.ResponseWriter, r *http.Request, b body) (v T, err error) {
	raw, err := readBody(w, r, b.bytes)
	if err != nil {
		return v, err
	}
	return v, decode(raw, &v, b.optional)
}

// decode reads exactly one JSON object into v and refuses unknown fields. If
// optional is set, an empty body means {}.
func decode(body []byte, v any, optional bool) error {
	body = bytes.TrimSpace(body)
	if len(body) == 0 {
		if optional {
			return nil
		}
		return fault.New(fault.Invalid, "The body is empty. Send a JSON object.")
	}
	if body[0] != '{' {
		return fault.New(fault.Invalid, "The body must be a JSON object.")
	}
	if !utf8.Valid(body) { // encoding/json would replace invalid bytes silently
		return fault.New(fault.Invalid, "The body is not valid UTF-8.")
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return decodeError(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return fault.New(fault.Invalid, "The body has data after its JSON object.")
	}
	return nil
}

func decodeError(err error) error {
	var syntax *json.SyntaxError
	var shape *json.UnmarshalTypeError
	switch {
	case errors.As(err, &shape):
		f := fault.InvalidField(shape.Field, "%s.", fault.WrongType(cmp.Or(shape.Field, "The body"), shape))
		f.Err = err
		return f
	case errors.As(err, &syntax):
		return fault.Wrap(fault.Invalid, err, "The body is not valid JSON (at byte %d).", syntax.Offset)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fault.Wrap(fault.Invalid, err, "The body is not valid JSON: it ends too early.")
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
	return fault.Wrap(fault.Invalid, err, "The body does not have the form that this route takes. See /openapi.json.")
}

// Page size of lists.
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
		return 0, fault.InvalidField("limit", "limit must be a number from 1 to %d.", maxLimit)
	}
	return n, nil
}

// pageOf cuts a list that was read with one row more than limit. If rows follow,
// next is the page token of the last row on the page.
func pageOf[T any](rows []T, limit int, token func(T) string) (page []T, next string) {
	if len(rows) <= limit {
		return append([]T{}, rows...), ""
	}
	return rows[:limit], token(rows[limit-1])
}

// flagOf parses a query parameter that is 1 or true, 0 or false.
func flagOf(r *http.Request, name string) (bool, error) {
	raw := r.URL.Query().Get(name)
	if raw == "" {
		return false, nil
	}
	v, err := strconv.ParseBool(raw)
	if err != nil {
		return false, fault.InvalidField(name, "%s must be 1 or 0.", name)
	}
	return v, nil
}

// numberOf parses a whole number in the query.
func numberOf(r *http.Request, name string, def, low, high int64) (int64, error) {
	raw := r.URL.Query().Get(name)
	if raw == "" {
		return def, nil
	}
	n, err := strconv.ParseInt(raw, 10, 64)
	if err != nil || n < low || n > high {
		return 0, fault.InvalidField(name, "%s must be a whole number from %d to %d.", name, low, high)
	}
	return n, nil
}

// checkQuery refuses query parameters that the route does not declare, so that a
// misspelled filter is an error and not ignored. It refuses a query that cannot
// be parsed for the same reason.
func checkQuery(r *http.Request, declared []string) error {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return fault.Wrap(fault.Invalid, err, "The query string cannot be parsed. Write %%25 for %% and %%3B for ;.")
	}
	for name := range query {
		if !slices.Contains(declared, name) {
			f := fault.InvalidField(name, "There is no query parameter %q.", name)
			f.Code = "unknown_field"
			return f
		}
	}
	return nil
}
