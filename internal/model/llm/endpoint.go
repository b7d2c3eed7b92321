package llm

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/sse"
)

// Endpoint calls one provider over HTTP and reads its event stream.
type Endpoint struct {
	// Vendor and Model are named to people when something is wrong.
	Vendor, Model string
	// Setting is the variable or setting that holds the key.
	Setting string
	// Key is cut out of everything that the provider says, for some quote it.
	Key string
	// Client makes the calls; nil means one that all adapters share.
	Client *http.Client
	// Idle is how long the provider may be silent (0: five minutes; the
	// providers send pings or tokens far more often).
	Idle time.Duration
}

// maxErrorBody bounds how much of an error page is read.
const maxErrorBody = 64 << 10

// maxIdleConns is how many connections to one provider wait for the next call.
const maxIdleConns = 64

// connBuffer is what a connection reads and writes at a time: every stream
// holds two of them, a token has some hundred bytes, and the body of a call is
// written past the buffer.
const connBuffer = 2 << 10

// drainTimeout and endMax bound what is read after the last event of an answer.
// Only a connection whose answer was read to its end serves the next call, and
// a new one costs a handshake.
const (
	drainTimeout = 50 * time.Millisecond
	drainLimit   = 4 << 10
)

var sharedClient = sync.OnceValue(func() *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = maxIdleConns
	t.ReadBufferSize, t.WriteBufferSize = connBuffer, connBuffer
	return &http.Client{Transport: t}
})

var errIdle = errors.New("the stream fell silent")

// Post sends body as JSON and hands each event of the answer to each, until it
// returns false or an error. A stream that ends is no error here: only the
// adapter knows whether it was complete (see [Endpoint.StreamCut]).
func (w *Endpoint) Post(ctx context.Context, target string, header http.Header, body []byte, each func(sse.Event) (more bool, err error)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	idle := w.Idle
	if idle <= 0 {
		idle = 5 * time.Minute
	}
	watch := time.AfterFunc(idle, func() { cancel(errIdle) })
	defer watch.Stop()

	sent := &requestBody{text: body}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, nil)
	if err != nil {
		return fault.Wrap(fault.Invalid, err, "The address %q of %s is not a URL.", target, w.Vendor)
	}
	sent.attachTo(req)
	req.Header = header.Clone()
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	resp, err := w.httpClient().Do(req)
	sent.release()
	if err != nil {
		return w.connectionError(ctx, err, "%s cannot be reached at %s.", w.Vendor, req.URL.Host)
	}
	defer func() { _ = resp.Body.Close() }() // nothing is lost: it was read
	if resp.StatusCode != http.StatusOK {
		return w.refusal(resp)
	}
	if kind := resp.Header.Get("Content-Type"); !strings.HasPrefix(kind, "text/event-stream") {
		return w.notStream(resp, kind)
	}
	events := sse.NewDecoder(resp.Body, 0)
	for {
		ev, err := events.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, sse.ErrTooLarge):
			return w.BadAnswer(err)
		case err != nil && context.Cause(ctx) == errIdle:
			return w.connectionError(ctx, err, "")
		case err != nil:
			return w.StreamCut(err)
		}
		watch.Reset(idle)
		more, err := each(ev)
		if err != nil {
			return err
		}
		if !more {
			watch.Reset(drainTimeout)
			_, _ = io.CopyN(io.Discard, resp.Body, drainLimit) // the answer is complete either way
			return nil
		}
	}
}

// client never follows a redirect: it would carry the key to another host.
func (w *Endpoint) httpClient() *http.Client {
	c := *sharedClient()
	if w.Client != nil {
		c = *w.Client
	}
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &c
}

func (w *Endpoint) connectionError(ctx context.Context, err error, format string, args ...any) error {
	if context.Cause(ctx) == errIdle {
		return fault.Wrap(fault.Timeout, errIdle, "%s said nothing for too long and was given up.", w.Vendor)
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err // without the URL, which may hold a password
	}
	return fault.Wrap(fault.Unavailable, err, format, args...)
}

// Cut is the error of a stream that ended before the answer was complete.
func (w *Endpoint) StreamCut(err error) error {
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	return &fault.Error{
		Kind: fault.Unavailable, Code: "stream_cut", Err: err,
		Message: w.Vendor + " broke off in the middle of its answer.",
	}
}

// BadAnswer is the error of an answer that is not what the protocol says.
func (w *Endpoint) BadAnswer(err error) error {
	return &fault.Error{
		Kind: fault.Unavailable, Code: CodeBadAnswer, Err: err,
		Message: w.Vendor + " sent something that is not part of its protocol.",
	}
}

// MissingKey is the error of a call for which no key was set.
func (w *Endpoint) MissingKey() error {
	return fault.New(fault.Unauthenticated, "There is no API key for %s: set %s.", w.Vendor, w.Setting)
}

func (w *Endpoint) notStream(resp *http.Response, kind string) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	if err != nil {
		return w.StreamCut(err)
	}
	if t := ParseError(body); t.Message != "" {
		t.Status = http.StatusInternalServerError
		return w.Fault(t)
	}
	return &fault.Error{
		Kind: fault.Unavailable, Code: CodeBadAnswer,
		Message: w.Vendor + " answered with " + w.redact(kind, 60) + " instead of a stream. Is its address right?",
	}
}
