package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
)

// loadDocument loads the OpenAPI document that the server serves.
var loadDocument = sync.OnceValues(func() (*openapi3.T, error) {
	raw, err := describe(newAPI(testOptions()).routes())
	if err != nil {
		return nil, err
	}
	return openapi3.NewLoader().LoadFromData(raw)
})

func testOptions() Options {
	o := Options{Token: token}
	o.setDefaults()
	return o
}

func document(t testing.TB) *openapi3.T {
	t.Helper()
	doc, err := loadDocument()
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func TestTheDescriptionIsAValidOpenAPIDocument(t *testing.T) {
	if err := document(t).Validate(context.Background()); err != nil {
		t.Error(err)
	}
}

// Control: the validator detects a reference to a schema that does not exist.
func TestTheDescriptionIsAValidOpenAPIDocumentControl(t *testing.T) {
	raw, err := describe(newAPI(testOptions()).routes())
	if err != nil {
		t.Fatal(err)
	}
	raw = bytes.Replace(raw, []byte(`"#/components/schemas/Session"`), []byte(`"#/components/schemas/Nothing"`), 1)
	doc, err := openapi3.NewLoader().LoadFromData(raw)
	if err == nil {
		err = doc.Validate(context.Background())
	}
	if err == nil {
		t.Error("a dangling reference is valid: the validator checks nothing")
	}
}

func TestTheDescriptionNamesExactlyTheRoutes(t *testing.T) {
	described := map[string]bool{}
	for path, item := range document(t).Paths.Map() {
		for method := range item.Operations() {
			described[method+" "+path] = true
		}
	}
	for _, r := range newAPI(testOptions()).routes() {
		if !described[r.pattern()] {
			t.Errorf("%s is not described", r.pattern())
		}
		delete(described, r.pattern())
	}
	for r := range described {
		t.Errorf("%s is described and does not exist", r)
	}
}

// conforming wraps h and checks every response against the OpenAPI document.
func conforming(t testing.TB, h http.Handler) http.Handler {
	t.Helper()
	router, err := gorillamux.NewRouter(document(t))
	if err != nil {
		t.Fatal(err)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := &recorder{ResponseWriter: w}
		h.ServeHTTP(rec, r)
		if err := conforms(router, r, rec.status, w.Header(), rec.body.Bytes()); err != nil && !rec.stream {
			t.Errorf("%s %s answered %d %s: %v", r.Method, r.URL.Path, rec.status, rec.body.Bytes(), err)
		}
	})
}

func conforms(router routers.Router, r *http.Request, status int, header http.Header, body []byte) error {
	local := r.Clone(context.Background())
	local.URL.Scheme, local.URL.Host = "", ""
	route, params, err := router.FindRoute(local)
	if err != nil {
		return nil // the web page, or an unknown path or method
	}
	return openapi3filter.ValidateResponse(context.Background(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: local, PathParams: params, Route: route},
		Status:                 status, Header: header, Body: io.NopCloser(bytes.NewReader(body)),
		Options: &openapi3filter.Options{
			IncludeResponseStatus: true,
			ExcludeResponseBody:   !strings.HasPrefix(header.Get("Content-Type"), "application/json"),
		},
	})
}

// recorder copies a response, unless it is an event stream.
type recorder struct {
	http.ResponseWriter
	status int
	stream bool
	body   bytes.Buffer
}

func (r *recorder) WriteHeader(code int) {
	r.status = code
	r.stream = strings.HasPrefix(r.Header().Get("Content-Type"), "text/event-stream")
	r.ResponseWriter.WriteHeader(code)
}

func (r *recorder) Write(p []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	if !r.stream {
		r.body.Write(p)
	}
	return r.ResponseWriter.Write(p)
}

func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// Every test of this package that uses a world checks its responses against the document. This control
// verifies that a response that does not conform is detected.
func TestResponsesMatchTheDescriptionControl(t *testing.T) {
	router, err := gorillamux.NewRouter(document(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		method, path, body string
		status             int
		fine               bool
	}{
		{"GET", "/sessions", `{"sessions":[{"id":"s","client":"web","createdAt":1,"updatedAt":1,"state":"idle"}]}`, 200, true},
		{"GET", "/sessions", `{"sessions":[{"id":"s","client":"web","createdAt":"1","updatedAt":1,"state":"idle"}]}`, 200, false},
		{"GET", "/sessions", `{"sessions":[{"id":"s","client":"web","createdAt":1,"updatedAt":1,"state":"asleep"}]}`, 200, false},
		{"GET", "/sessions", `{"sessions":null}`, 200, false},
		{"GET", "/sessions", `{}`, 200, false},
		{"GET", "/sessions", `{"error":{"kind":"invalid","code":"invalid","message":"No.","retryable":false}}`, 400, true},
		{"GET", "/sessions", `{"error":"No."}`, 400, false},
		{"POST", "/sessions/s/prompt", `{"success":true,"sessionId":"s","requestId":"r","messageId":"m","message":"ok"}`, 200, true},
		{"POST", "/sessions/s/prompt", `{"success":true}`, 200, false},
	} {
		r := httptest.NewRequest(c.method, c.path, strings.NewReader("{}"))
		r.Header.Set("Content-Type", "application/json")
		err := conforms(router, r, c.status, http.Header{"Content-Type": {"application/json"}}, []byte(c.body))
		if (err == nil) != c.fine {
			t.Errorf("%s %s %d %s: conforms = %t, want %t (%v)", c.method, c.path, c.status, c.body, err == nil, c.fine, err)
		}
	}
}

// The document describes both the fields of a message and those that the API adds, and no others.
func TestRequestBodiesRefuseUndescribedFields(t *testing.T) {
	raw, err := json.Marshal(document(t).Components.Schemas["Prompt"])
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(raw, []byte(`"additionalProperties":false`)) {
		t.Errorf("a prompt may have any field: %s", raw)
	}
}
