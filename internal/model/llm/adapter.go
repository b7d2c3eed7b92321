package llm

import (
	"context"
	"errors"
	"iter"
	"net/http"

	"lilac/internal/foundation/fault"
)

// Adapter makes the calls of a model over HTTP. It holds what all protocols have in common;
// Encode knows the protocol. It is safe for concurrent use and implements [Model].
type Adapter struct {
	Options  Options
	Endpoint *Endpoint
	// URL is the complete address of the calls.
	URL string
	// Encode returns the call of a request, and what a refusal must know about it. The error
	// is one of the encoding.
	Encode func(req Request, facts Facts, change Change) (Call, Sent, error)
}

// Call is an encoded request.
type Call struct {
	Header http.Header
	Body   []byte
	// Decoder returns the decoder of the answer, which emits its chunks to out.
	Decoder func(out *Output) Decoder
}

// Decoder builds an answer from the events of its stream.
type Decoder interface {
	// Event decodes the data of one event. It returns a *[ProviderError] that the event
	// reports, or an error about the event itself. No event follows one with an error.
	Event(data []byte) error
	// Closed reports whether no further event belongs to the answer.
	Closed() bool
	// End ends the answer. err is the error that ended the stream, or nil. It reports
	// whether the answer is complete, and returns err, or another error that it found. An
	// answer with its reason for the end is complete even if the connection was lost then.
	End(err error) (complete bool, _ error)
	// Done returns the last chunk of a complete answer.
	Done() Chunk
}

// Output passes the chunks of an answer to the caller of the model.
type Output struct {
	yield func(Chunk) bool
	// Begun means that a chunk was emitted, so that the call must not be repeated.
	Begun bool
	// Abandoned means that the caller has stopped reading.
	Abandoned bool
}

// Emit passes a chunk on, unless the caller has stopped reading.
func (o *Output) Emit(c Chunk) {
	o.Begun = true
	if !o.Abandoned {
		o.Abandoned = !o.yield(c)
	}
}

// Info describes the model.
func (a *Adapter) Info() Info { return a.Options.Info() }

// Stream makes one call.
func (a *Adapter) Stream(ctx context.Context, req Request) iter.Seq2[Chunk, error] {
	return a.Options.Retry.Stream(ctx, func(ctx context.Context, yield func(Chunk) bool) error {
		if a.Options.APIKey == "" && a.Options.BaseURL == "" {
			return a.Endpoint.missingKey()
		}
		if err := a.Endpoint.checkKey(); err != nil {
			return err
		}
		return a.Options.Learned.Adapt(func(facts Facts, change Change) (Sent, bool, error) {
			return a.call(ctx, req, facts, change, &Output{yield: yield})
		})
	})
}

// call makes one HTTP request. begun reports whether a chunk was passed to out.
func (a *Adapter) call(ctx context.Context, req Request, facts Facts, change Change, out *Output) (sent Sent, begun bool, err error) {
	call, sent, err := a.Encode(req, facts, change)
	if err != nil {
		return sent, false, fault.Wrap(fault.Invalid, err, "The request to %s cannot be encoded as JSON.", a.Endpoint.Vendor)
	}
	d := call.Decoder(out)
	err = a.Endpoint.WithSilenceLimit(req.SilenceLimit).Post(ctx, a.URL, call.Header, call.Body, func(data []byte) (bool, error) {
		if err := d.Event(data); err != nil {
			return false, a.streamError(err)
		}
		return !out.Abandoned && !d.Closed(), nil
	})
	if out.Abandoned {
		return sent, true, nil
	}
	complete, err := d.End(err)
	switch {
	case err != nil && (!complete || fault.KindOf(err) != fault.Unavailable):
		return sent, out.Begun, a.streamError(err)
	case !complete:
		return sent, out.Begun, a.Endpoint.streamCut(nil)
	}
	done := d.Done()
	done.WithoutThinking = change.NoReasoning
	if done.Usage.CostMicros == 0 {
		done.Usage.CostMicros = a.Options.Price.Cost(done.Usage)
	}
	out.Emit(done)
	return sent, true, nil
}

// streamError returns the fault for an error of the stream.
func (a *Adapter) streamError(err error) error {
	var refused *ProviderError
	switch f := (*fault.Error)(nil); {
	case errors.As(err, &f):
		return err
	case errors.As(err, &refused):
		return a.Endpoint.Fault(*refused)
	}
	return a.Endpoint.badAnswer(err)
}
