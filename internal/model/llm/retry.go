package llm

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	"lilac/internal/foundation/fault"
)

// Retry says how often and when a call is repeated before its first chunk.
// Its zero value is the usual policy.
type Retry struct {
	// Max is how many times a call is repeated; 0 means 3, negative never.
	Max int
	// Base is the first pause (0: half a second); it doubles up to Cap.
	Base time.Duration
	// Cap bounds every pause, also one that the server asks for (0: a minute).
	Cap time.Duration
	// Jitter returns a number in [0, 1) that spreads the pauses, so that many
	// sessions do not come back in the same moment.
	Jitter func() float64
	// Sleep waits for d or for the end of ctx.
	Sleep func(ctx context.Context, d time.Duration) error
}

// CodeBadAnswer marks an answer that is not what the protocol says: asking
// again at once would bring the same.
const CodeBadAnswer = "bad_answer"

// CodeContextLength marks a prompt that is too long for the model.
const CodeContextLength = "context_length"

// Attempt is one try of a call: it hands chunks to yield until that returns
// false, and returns what went wrong.
type Attempt func(ctx context.Context, yield func(Chunk) bool) error

// Stream makes the sequence of [Model.Stream] out of attempts. An attempt that
// fails with a retryable error before it yielded a chunk is repeated.
func (r Retry) Stream(ctx context.Context, attempt Attempt) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		for retry := 0; ; retry++ {
			begun, left := false, false
			err := attempt(ctx, func(c Chunk) bool {
				begun = true
				left = !yield(c, nil)
				return !left
			})
			if left || err == nil {
				return
			}
			if ctx.Err() != nil {
				yield(Chunk{}, ContextError(ctx))
				return
			}
			if begun || retry >= r.max() || !isRepeatable(err) {
				yield(Chunk{}, err)
				return
			}
			if err := r.sleep(ctx, r.pause(retry, err)); err != nil {
				yield(Chunk{}, ContextError(ctx))
				return
			}
		}
	}
}

// ContextError is the error of a call whose context ended: of kind Cancelled or
// Timeout, with the context's error and its cause in the chain.
func ContextError(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if cause != nil && !errors.Is(cause, err) {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fault.Wrap(fault.Timeout, err, "The model call took too long and was stopped.")
	}
	return fault.Wrap(fault.Cancelled, err, "The model call was stopped.")
}

func isRepeatable(err error) bool {
	var f *fault.Error
	if errors.As(err, &f) && f.Code == CodeBadAnswer {
		return false
	}
	return fault.KindOf(err).Retryable()
}

func (r Retry) max() int {
	if r.Max == 0 {
		return 3
	}
	return max(0, r.Max)
}

// pause is what the server asked for, else exponential with half of it spread.
func (r Retry) pause(retry int, err error) time.Duration {
	base, limit := r.Base, r.Cap
	if base <= 0 {
		base = 500 * time.Millisecond
	}
	if limit <= 0 {
		limit = time.Minute
	}
	jitter := r.Jitter
	if jitter == nil {
		jitter = rand.Float64
	}
	var f *fault.Error
	if errors.As(err, &f) && f.RetryAfter > 0 {
		return min(f.RetryAfter, limit)
	}
	d := min(base<<min(retry, 16), limit)
	return d/2 + time.Duration(jitter()*float64(d/2))
}

func (r Retry) sleep(ctx context.Context, d time.Duration) error {
	if r.Sleep != nil {
		return r.Sleep(ctx, d)
	}
	return Sleep(ctx, d)
}

// Sleep waits for d or for the end of ctx, whose error it returns.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
