package llm

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"sync"
)

// requestBody is the body of a call. It is released when the response begins: net/http
// keeps the request for as long as the response streams, and the body (a conversation
// with its tools) is most of the memory of such a stream.
type requestBody struct {
	mu   sync.Mutex
	text []byte
}

var errReleased = errors.New("the request body was released")

// attachTo sets the body of req. Until the response begins, the transport may send it
// again over a new connection.
func (b *requestBody) attachTo(req *http.Request) {
	req.ContentLength = int64(len(b.text))
	req.GetBody = b.open
	req.Body, _ = b.open() // cannot fail before release
}

// release frees the text. Readers that are already open keep it until they close.
func (b *requestBody) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text = nil
}

func (b *requestBody) open() (io.ReadCloser, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.text == nil {
		return nil, errReleased
	}
	return &bodyReader{rest: bytes.NewReader(b.text)}, nil
}

// bodyReader reads a body until the transport closes it, which happens on a goroutine
// of the transport.
type bodyReader struct {
	mu   sync.Mutex
	rest *bytes.Reader // nil once it is closed
}

// Read implements [io.Reader].
func (r *bodyReader) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rest == nil {
		return 0, errReleased
	}
	return r.rest.Read(p)
}

// Close implements [io.Closer].
func (r *bodyReader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rest = nil
	return nil
}
