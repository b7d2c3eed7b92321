package openaiapi

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

// outcome is the end of an answer.
type outcome struct {
	// text is the whole answer.
	text  string
	usage chat.Usage
	// err is why the request failed, or nil.
	err error
	// cancelled reports that somebody stopped the request.
	cancelled bool
}

// sink receives an answer while it is generated.
type sink struct {
	// text receives the next piece; idle is called while there is none. Without idle, nothing is waited for.
	text func(piece string) error
	idle func() error
}

// silent is a sink for an answer that is needed at its end alone.
var silent = sink{text: func(string) error { return nil }, idle: func() error { return nil }}

// errUnfinished and errNoMessage are the errors of reading an answer without waiting: it has not ended, or
// the conversation has no such message.
var (
	errUnfinished = errors.New("the answer has not ended")
	errNoMessage  = fault.New(fault.NotFound, "There is no such message.")
)

// restarted tells the reader of a stream that its text was interrupted, for example by a
// restart: a stream cannot take back what it has sent.
const restarted = "\n\n(The text above was interrupted and begins again.)\n\n"

// follower reads the answer to one call. It belongs to one goroutine.
type follower struct {
	h    *Handler
	run  run
	sink sink

	wake              chan struct{}
	lifecycle, output bus.Reader
	// requestID is the request that the message was applied to; "" until then.
	requestID string
	// from is the length of the request's text before the message, and sent that up to which
	// the sink has it, in bytes.
	from, sent int64
	text       strings.Builder
	// again reports that text that the sink has was taken back.
	again bool
	final *event.FinalText
	end   *event.RequestLifecycle
}

// follow passes the answer to a call on until it ends. The work goes on if ctx ends.
func (h *Handler) follow(ctx context.Context, r run, s sink) (outcome, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(h.o.Stopping, cancel)()
	f := &follower{h: h, run: r, sink: s, wake: make(chan struct{}, 1)}
	defer f.close()
	out, err := f.follow(ctx)
	switch {
	case err != nil && h.o.Stopping.Err() != nil:
		return out, fault.New(fault.Unavailable, "Lilac is restarting. The work goes on: repeat the call to get its answer.")
	case errors.Is(err, bus.ErrTrimmed):
		return f.stored(context.WithoutCancel(ctx))
	}
	return out, err
}

func (f *follower) close() {
	for _, r := range []bus.Reader{f.lifecycle, f.output} {
		if r != nil {
			r.Close()
		}
	}
}

func (f *follower) follow(ctx context.Context) (out outcome, err error) {
	f.lifecycle, err = f.h.o.Bus.Open(bus.Tail{Topic: event.TopicRequest, Lane: f.run.SessionID, After: f.run.After}, f.wake)
	if err != nil {
		return out, fmt.Errorf("follow the request: %w", err)
	}
	beat := time.NewTicker(f.h.o.Heartbeat)
	defer beat.Stop()
	for {
		read, err := f.read(ctx)
		if err != nil {
			return out, err
		}
		if out, ended, err := f.ended(); ended || err != nil {
			return out, err
		}
		switch {
		case read:
			continue
		case f.sink.idle == nil && f.requestID == "":
			return out, errNoMessage
		case f.sink.idle == nil:
			return out, errUnfinished
		}
		select {
		case <-ctx.Done():
			return out, context.Cause(ctx)
		case <-f.wake:
		case <-beat.C:
			if err := f.sink.idle(); err != nil {
				return out, err
			}
		}
	}
}

// read handles the next event of each topic.
func (f *follower) read(ctx context.Context) (read bool, err error) {
	if f.output != nil {
		d, got, err := f.output.Next(ctx)
		if err != nil {
			return false, fmt.Errorf("read the output: %w", err)
		}
		if got {
			if err := f.handleOutput(d); err != nil {
				return false, err
			}
			read = true
		}
	}
	if f.end != nil { // its output is read to the end first
		return read, nil
	}
	d, got, err := f.lifecycle.Next(ctx)
	if err != nil {
		return false, fmt.Errorf("read the lifecycle: %w", err)
	}
	if got {
		return true, f.handleLifecycle(d)
	}
	return read, nil
}

// handleLifecycle notes which request has the message, and its end or question.
func (f *follower) handleLifecycle(d bus.Delivery) error {
	payload, err := event.Decode(d.Event)
	if err != nil {
		return nil // a damaged event is none of ours
	}
	id := d.Headers.RequestID()
	switch e := payload.(type) {
	case event.MessageApplied:
		if e.MessageID != f.run.MessageID {
			return nil
		}
		f.requestID, f.from, f.sent = id, e.Offset, e.Offset
		f.output, err = f.h.o.Bus.Open(bus.Tail{Topic: event.OutputTopic(id)}, f.wake)
		if err != nil {
			return fmt.Errorf("follow the output: %w", err)
		}
	case event.RequestLifecycle:
		mine := id == f.requestID || f.requestID == "" && id == f.run.RequestID && e.State.Ended()
		if mine && (e.State.Ended() || e.Paused) {
			f.end = &e
		}
	}
	return nil
}

func (f *follower) handleOutput(d bus.Delivery) error {
	payload, err := event.Decode(d.Event)
	if err != nil {
		return nil
	}
	switch e := payload.(type) {
	case event.TextDelta:
		return f.add(e.Offset, e.Delta)
	case event.TextReset:
		if keep := max(e.Offset, f.from); keep < f.sent {
			text := f.text.String()[:keep-f.from]
			f.text.Reset()
			f.text.WriteString(text)
			f.sent, f.again = keep, true
		}
	case event.FinalText:
		f.final = &e
		if int64(len(e.FinalText)) > f.sent { // some of it has expired
			return f.add(f.sent, e.FinalText[f.sent:])
		}
	}
	return nil
}

// add passes text on that begins at an offset of the request's text, as far as it is new.
func (f *follower) add(offset int64, text string) error {
	if known := f.sent - offset; known > 0 {
		text = text[min(known, int64(len(text))):]
	}
	if text == "" {
		return nil
	}
	f.sent += int64(len(text))
	f.text.WriteString(text)
	if f.again {
		f.again = false
		text = restarted + text
	}
	return f.sink.text(text)
}

// ended returns the outcome if the answer is complete.
func (f *follower) ended() (out outcome, ended bool, err error) {
	if f.end == nil {
		return out, false, nil
	}
	e := *f.end
	if e.Paused {
		if f.sent < e.Offset {
			return out, false, nil
		}
		if e.Kind != "" { // the question at a limit is part of the text
			question := e.Detail
			if f.text.Len() > 0 {
				question = "\n\n" + question
			}
			if err := f.add(f.sent, question); err != nil {
				return out, false, err
			}
		}
		return outcome{text: f.text.String()}, true, nil
	}
	if f.requestID != "" && f.final == nil {
		return out, false, nil
	}
	out.text = f.text.String()
	if f.final != nil && f.final.Usage != nil {
		out.usage = *f.final.Usage
	}
	return f.state(out, e.State, e.ErrorKind, e.Detail), true, nil
}

// state adds the end state of a request to an outcome.
func (f *follower) state(out outcome, state event.RequestState, kind fault.Kind, detail string) outcome {
	switch state {
	case event.StateCancelled:
		out.cancelled = true
	case event.StateFailed:
		if !kind.Valid() {
			kind = fault.Internal
		}
		out.err = fault.New(kind, "%s", detail)
	}
	return out
}

// stored returns the answer of a request whose events have expired, from the store.
func (f *follower) stored(ctx context.Context) (out outcome, err error) {
	err = f.h.o.DB.Read(ctx, func(q db.Queryer) error {
		req, err := f.h.o.Requests.Request(q, f.run.RequestID)
		if err != nil {
			return err
		}
		if !req.State.Ended() {
			return fault.New(fault.Unavailable, "The output of the request cannot be read any more. Repeat the request later to get its answer.")
		}
		payloads, err := f.h.o.FinalOutput(q, f.run.SessionID, f.run.RequestID)
		if err != nil {
			return err
		}
		for _, p := range payloads {
			if final, ok := p.(event.FinalText); ok {
				out.text = final.FinalText
			}
		}
		out.usage = req.Usage
		out = f.state(out, req.State, req.ErrorKind, req.Detail)
		return nil
	})
	if err != nil {
		return out, err
	}
	if rest := out.text; f.text.Len() == 0 && rest != "" {
		return out, f.sink.text(rest)
	}
	return out, nil
}
