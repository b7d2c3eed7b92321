package llm

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"sync"
)

// sentBody is the body of a call, which is forgotten once there is an answer:
// the request lives as long as its answer streams, and the body, a conversation
// with its tools, is most of what such a stream would hold.
type sentBody struct {
	mu   sync.Mutex
	text []byte
}

var errForgotten = errors.New("the body was sent and is forgotten")

// become makes it the body of a request that may be sent again by the
// transport, over a fresh connection, as long as there is no answer.
func (b *sentBody) become(req *http.Request) {
	req.ContentLength = int64(len(b.text))
	req.GetBody = b.open
	req.Body, _ = b.open() // it is not forgotten yet
}

// forget frees the text, except for who still reads it.
func (b *sentBody) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text = nil
}

func (b *sentBody) open() (io.ReadCloser, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.text == nil {
		return nil, errForgotten
	}
	return &sentReader{rest: bytes.NewReader(b.text)}, nil
}

// sentReader reads a body until it is closed, which the transport does once it
// is sent, on a goroutine of its own.
type sentReader struct {
	mu   sync.Mutex
	rest *bytes.Reader // nil once it is closed
}

// Read implements [io.Reader].
func (r *sentReader) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rest == nil {
		return 0, errForgotten
	}
	return r.rest.Read(p)
}

// Close implements [io.Closer].
func (r *sentReader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rest = nil
	return nil
}
