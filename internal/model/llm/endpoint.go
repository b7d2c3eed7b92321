package llm

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/sse"
)

// Endpoint calls one provider over HTTP and reads the stream of its answer.
type Endpoint struct {
	// Vendor and Model are named in errors.
	Vendor, Model string
	// Setting names the variable or setting of the key.
	Setting string
	// Key and the values of Headers are removed from everything that the provider sends in errors.
	Key     string
	Headers http.Header
	// Client makes the calls; nil means a client that all adapters share.
	Client *http.Client
	// FirstToken and Silence bound how long the provider may send nothing, before and
	// after the first event. Every byte counts, also of a comment. 0 means the default.
	FirstToken, Silence time.Duration
}

const (
	// DefaultFirstToken and DefaultSilence are so short that a call and its retry end
	// within the five minutes after which surfaces give an answer up.
	DefaultFirstToken = 2 * time.Minute
	DefaultSilence    = 2 * time.Minute

	// maxErrorBody bounds how much of an error response is read.
	maxErrorBody = 64 << 10
	// maxIdleConns is the number of idle connections per provider.
	maxIdleConns = 64
	// connBuffer is the size of the two buffers of a connection. They are small because
	// every stream has them, an event has some hundred bytes, and the body of a call
	// bypasses them.
	connBuffer = 2 << 10
	// drainTimeout and drainLimit bound what is read after the last event. Only a
	// connection whose response was read to its end can be reused.
	drainTimeout = 50 * time.Millisecond
	drainLimit   = 4 << 10
)

// WithSilenceLimit returns a copy of the endpoint with limits of at most d; 0 keeps them.
func (w *Endpoint) WithSilenceLimit(d time.Duration) *Endpoint {
	if d <= 0 {
		return w
	}
	out := *w
	out.FirstToken = min(d, positiveOr(w.FirstToken, DefaultFirstToken))
	out.Silence = min(d, positiveOr(w.Silence, DefaultSilence))
	return &out
}

var sharedClient = sync.OnceValue(func() *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = maxIdleConns
	t.ReadBufferSize, t.WriteBufferSize = connBuffer, connBuffer
	return &http.Client{Transport: t}
})

var errSilent = errors.New("the provider sent nothing for too long")

const (
	// MaxSilence limits the silence of all attempts of a step together: surfaces give up on
	// an answer after five minutes. A model whose own limit is longer gets one attempt.
	MaxSilence = 5 * time.Minute
	// MinSilenceLimit is the shortest time in which another attempt makes sense.
	MinSilenceLimit = 30 * time.Second
)

// IsSilent reports whether a call failed, or one of the calls of a chain, because its provider
// sent nothing for too long.
func IsSilent(err error) bool {
	switch e := err.(type) {
	case *fault.Error:
		return e.Code == CodeSilent || IsSilent(e.Err)
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(e.Unwrap(), IsSilent)
	case nil:
		return false
	}
	return err == errSilent || IsSilent(errors.Unwrap(err))
}

// Post sends body as JSON and passes the data of each event of the response to each, until
// it returns false or an error. The end of the stream is not an error: only the adapter
// knows whether the answer is complete (see [Endpoint.streamCut]).
func (w *Endpoint) Post(ctx context.Context, target string, header http.Header, body []byte, each func(data []byte) (more bool, err error)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := &watchdog{limit: positiveOr(w.FirstToken, DefaultFirstToken)}
	watch.timer = time.AfterFunc(watch.limit, func() { cancel(errSilent) })
	defer watch.timer.Stop()

	sent := &requestBody{text: body}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, nil)
	if err != nil {
		return fault.Wrap(fault.Invalid, err, "The address %q of %s is not a URL.", target, w.Vendor)
	}
	sent.attachTo(req)
	req.Header = header.Clone()
	req.Header.Set("Content-Type", "application/json")
	if req.Header.Get("Accept") == "" {
		req.Header.Set("Accept", "text/event-stream")
	}
	// llama.cpp's server closes a connection after an answer without saying so. This makes the
	// transport repeat a call on another connection if there was no answer on one that it had used
	// before (see [http.Transport]); the header is not sent.
	req.Header["Idempotency-Key"] = []string{}
	resp, err := w.httpClient().Do(req)
	sent.release()
	switch {
	case err != nil && w.Vendor == req.URL.Host:
		return w.connectionError(ctx, err, "%s cannot be reached.", w.Vendor)
	case err != nil:
		return w.connectionError(ctx, err, "%s cannot be reached at %s.", w.Vendor, req.URL.Host)
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	watch.reset()
	watch.r = resp.Body
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return w.refusal(resp)
	}
	events := newStreamReader(watch)
	for {
		data, err := events.next()
		switch {
		case errors.Is(err, io.EOF) && events.events == 0:
			return w.noEvents(resp, events)
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, sse.ErrTooLarge):
			return w.badAnswer(err)
		case err != nil && context.Cause(ctx) == errSilent:
			return w.connectionError(ctx, err, "")
		case err != nil:
			return w.streamCut(err)
		}
		watch.limit = positiveOr(w.Silence, DefaultSilence)
		more, err := each(data)
		if err != nil {
			return err
		}
		if !more {
			watch.timer.Reset(drainTimeout)
			_, _ = io.CopyN(io.Discard, resp.Body, drainLimit) // the answer is complete either way
			return nil
		}
	}
}

func positiveOr(d, fallback time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return fallback
}

// watchdog restarts a timer whenever bytes arrive. Only the goroutine of Post uses it.
type watchdog struct {
	timer *time.Timer
	limit time.Duration
	r     io.Reader
}

// Read implements [io.Reader].
func (d *watchdog) Read(p []byte) (int, error) {
	d.reset() // the limit may have changed since the last read
	n, err := d.r.Read(p)
	if n > 0 {
		d.reset()
	}
	return n, err
}

func (d *watchdog) reset() { d.timer.Reset(d.limit) }

// httpClient returns a client that follows no redirects, which would send the key to
// another host.
func (w *Endpoint) httpClient() *http.Client {
	c := *sharedClient()
	if w.Client != nil {
		c = *w.Client
	}
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &c
}

func (w *Endpoint) connectionError(ctx context.Context, err error, format string, args ...any) error {
	if context.Cause(ctx) == errSilent {
		return &fault.Error{
			Kind: fault.Timeout, Code: CodeSilent, Err: errSilent,
			Message: w.Vendor + " sent nothing for too long, so Lilac ended the call. For slow models, raise firstToken or silence of the model under models.",
		}
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err // without the URL, which may contain a password
	}
	if known := fault.OfTransport(err, w.Vendor); known != nil {
		return known
	}
	return fault.Wrap(fault.Unavailable, err, format, args...)
}

// streamCut returns the error of a stream that ended before the answer was complete.
func (w *Endpoint) streamCut(err error) error {
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	return &fault.Error{
		Kind: fault.Unavailable, Code: "stream_cut", Err: err,
		Message: w.Vendor + " broke off in the middle of its answer.",
	}
}

// badAnswer returns the error of an answer that violates the protocol.
func (w *Endpoint) badAnswer(err error) error {
	return &fault.Error{
		Kind: fault.Unavailable, Code: CodeBadAnswer, Err: err,
		Message: w.Vendor + " sent data that does not follow its protocol.",
	}
}

// missingKey returns the error of a call without an API key.
func (w *Endpoint) missingKey() error {
	return fault.New(fault.Unauthenticated, "There is no API key for %s: set %s.", w.Vendor, w.Setting)
}

// checkKey reports a key that cannot be sent in a header.
func (w *Endpoint) checkKey() error {
	if strings.ContainsFunc(w.Key, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return fault.New(fault.Unauthenticated, "The API key for %s contains a space or a line break. Check %s.", w.Vendor, w.Setting)
	}
	return nil
}

// noEvents returns the error of a response that had nothing to decode. The first line of a
// text is the sentence of the server or of a proxy.
func (w *Endpoint) noEvents(resp *http.Response, events *streamReader) error {
	kind := resp.Header.Get("Content-Type")
	switch {
	case !events.html && events.plain != "":
		return w.Fault(ProviderError{Message: events.plain})
	case !events.html && strings.HasPrefix(kind, "text/event-stream"):
		return w.streamCut(nil)
	case events.html:
		kind = "a web page"
	}
	return &fault.Error{
		Kind: fault.Unavailable, Code: CodeBadAnswer,
		Message: w.Vendor + " answered with " + w.redact(kind, 60) + " instead of a stream. Check its base URL.",
	}
}
