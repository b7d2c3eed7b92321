package fallback

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"lilac/internal/foundation/fault"
	"lilac/internal/model/llm"
)

// CodeAllFailed marks the error of a chain in which no model could answer.
const CodeAllFailed = "all_models_failed"

// A Candidate is one way to get an answer: a model at an endpoint with a key.
type Candidate struct {
	llm.Model
	// Name is provider/model, for people.
	Name string
	// Key names the breaker. It must not contain the API key.
	Key string
}

// A Switch reports that another candidate is called from now on.
type Switch struct {
	From string `json:"from"`
	To   string `json:"to"`
	// Reason says why From cannot answer.
	Reason string `json:"reason"`
}

// A Chain is a model that calls the first of its candidates that works.
type Chain struct {
	candidates []Candidate
	breakers   *Breakers
	now        func() time.Time
	// onSwitch is called before the first call of another model.
	onSwitch func(Switch) error

	current atomic.Int32 // Info reads it from other goroutines
	// tried marks the candidates that failed since the last answer; errs has their errors.
	tried []bool
	errs  []error
}

// New returns a chain of at least one candidate.
func New(candidates []Candidate, breakers *Breakers, now func() time.Time) *Chain {
	return &Chain{
		candidates: candidates, breakers: breakers, now: now,
		tried: make([]bool, len(candidates)), errs: make([]error, len(candidates)),
	}
}

// OnSwitch sets the function that is called before another model is called for the first
// time. Its error ends the call.
func (c *Chain) OnSwitch(f func(Switch) error) { c.onSwitch = f }

// Info describes the model that is called. Audio says whether every candidate hears recordings,
// because the same messages may go to each of them.
func (c *Chain) Info() llm.Info {
	info := c.candidates[c.current.Load()].Info()
	info.Audio = !slices.ContainsFunc(c.candidates, func(one Candidate) bool { return !one.Info().Audio })
	return info
}

// Prepare prepares the current model; see [llm.Prepare].
func (c *Chain) Prepare(ctx context.Context) {
	llm.Prepare(ctx, c.candidates[c.current.Load()].Model)
}

// Stream makes one call. It tries further candidates until one of them begins to answer.
func (c *Chain) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		begun := c.now()
		for {
			limited, ok := c.limitSilence(req, c.now().Sub(begun))
			if !ok {
				yield(llm.Chunk{}, c.exhausted(0))
				return
			}
			next, wait := c.breakers.pick(c.candidates, c.tried, int(c.current.Load()), c.now())
			if next < 0 {
				yield(llm.Chunk{}, c.exhausted(wait))
				return
			}
			if err := c.switchTo(next); err != nil {
				yield(llm.Chunk{}, err)
				return
			}
			err := c.try(ctx, next, limited, yield)
			if err == nil {
				return
			}
			if ctx.Err() != nil || len(c.candidates) == 1 || failureOf(err).Verdict() == Return {
				yield(llm.Chunk{}, err)
				return
			}
		}
	}
}

// limitSilence bounds the silence of the next candidate if an earlier one was silent, so that
// all of them together are silent for no longer than surfaces wait. ok is false if there is no
// time for another one.
func (c *Chain) limitSilence(req llm.Request, waited time.Duration) (limited llm.Request, ok bool) {
	if !slices.ContainsFunc(c.errs, llm.IsSilent) {
		return req, true
	}
	limit := llm.MaxSilence
	if req.SilenceLimit > 0 {
		limit = min(limit, req.SilenceLimit)
	}
	req.SilenceLimit = limit - waited
	return req, req.SilenceLimit >= llm.MinSilenceLimit
}

// try calls one candidate and passes its chunks on. The error is that of a call from which
// nothing was passed on; a later error is passed on as well.
func (c *Chain) try(ctx context.Context, i int, req llm.Request, yield func(llm.Chunk, error) bool) error {
	begun := false
	for chunk, err := range c.candidates[i].Stream(ctx, req) {
		if err != nil {
			c.note(ctx, i, err)
			if !begun {
				return err
			}
			yield(llm.Chunk{}, err)
			return nil
		}
		if chunk.Kind == llm.ChunkDone {
			c.breakers.succeeded(c.candidates[i].Key)
			clear(c.tried)
			clear(c.errs)
		}
		begun = true
		if !yield(chunk, nil) {
			return nil
		}
	}
	return nil
}

// note records a failed call.
func (c *Chain) note(ctx context.Context, i int, err error) {
	if ctx.Err() != nil {
		return
	}
	f := failureOf(err)
	c.breakers.failed(c.candidates[i].Key, f, c.now())
	if len(c.candidates) == 1 {
		return // the caller repeats the call
	}
	c.errs[i] = err
	switch f.Verdict() {
	case NextKey:
		c.tried[i] = true
	case NextModel:
		for j, other := range c.candidates {
			if other.Name == c.candidates[i].Name {
				c.tried[j] = true
			}
		}
	}
}

// switchTo makes a candidate the current one, and reports a change of the model.
func (c *Chain) switchTo(next int) error {
	last := int(c.current.Swap(int32(next)))
	if last == next || c.onSwitch == nil || c.candidates[last].Name == c.candidates[next].Name {
		return nil
	}
	return c.onSwitch(Switch{From: c.candidates[last].Name, To: c.candidates[next].Name, Reason: c.reason(last)})
}

// reason says why a candidate is not called.
func (c *Chain) reason(i int) string {
	if err := c.errs[i]; err != nil {
		return fault.ToWire(err).Message
	}
	return c.breakers.state(c.candidates[i].Key).Reason
}

// exhausted returns the error of a chain without a candidate that may be called, and
// lets the next call begin anew.
func (c *Chain) exhausted(wait time.Duration) error {
	defer func() {
		clear(c.tried)
		clear(c.errs)
	}()
	var reasons []string
	named := map[string]bool{}
	for i, candidate := range c.candidates {
		reason := strings.TrimSuffix(cmp.Or(c.reason(i), "It was not called, because those before it were silent for too long"), ".")
		if left := c.breakers.state(candidate.Key).OpenUntil.Sub(c.now()); !c.tried[i] && left > 0 {
			reason += fmt.Sprintf(" (not called for another %s)", max(left.Round(time.Second), time.Second))
		}
		if line := candidate.Name + ": " + reason + "."; !named[line] {
			named[line] = true
			reasons = append(reasons, line)
		}
	}
	f := &fault.Error{Code: CodeAllFailed, Message: strings.Join(reasons, " "), Err: errors.Join(c.errs...)}
	f.Kind, f.RetryAfter = outlook(c.errs, wait)
	if len(reasons) > 1 {
		f.Message = "No model could answer. " + f.Message
	}
	return f
}

// outlook returns the kind of a chain's error, which says whether to repeat the call: soon
// if a candidate only failed, after the wait that a provider demands, or else not at all.
func outlook(errs []error, wait time.Duration) (fault.Kind, time.Duration) {
	first := fault.RateLimited
	for _, err := range slices.Backward(errs) {
		if err == nil {
			continue
		}
		first = fault.KindOf(err)
		if first.Retryable() {
			return first, 0
		}
	}
	if wait > 0 {
		return fault.RateLimited, wait
	}
	return first, 0
}

func failureOf(err error) Failure {
	f := Failure{Kind: fault.KindOf(err), Reason: fault.ToWire(err).Message}
	var detail *fault.Error
	if errors.As(err, &detail) {
		f.Code, f.RetryAfter = detail.Code, detail.RetryAfter
	}
	return f
}
