package llm

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	"lilac/internal/foundation/delay"
	"lilac/internal/foundation/fault"
)

// Retry is the policy for repeating a call that fails before its first chunk. The zero
// value is the default policy.
type Retry struct {
	// Max is the maximum number of retries; 0 means 3, negative none.
	Max int
	// Base is the first delay (0: half a second); it doubles up to Cap.
	Base time.Duration
	// Cap bounds every delay, also one that the server asks for (0: a minute).
	Cap time.Duration
	// Jitter returns a number in [0, 1) that spreads the delays, so that many sessions
	// don't retry at the same moment.
	Jitter func() float64
	// Sleep waits for d or until ctx ends.
	Sleep func(ctx context.Context, d time.Duration) error
}

// Attempt makes a call once. It passes chunks to yield until that returns false, and
// returns the error of the call.
type Attempt func(ctx context.Context, yield func(Chunk) bool) error

// Stream turns attempts into the sequence of [Model.Stream]. It repeats an attempt that
// fails with a retryable error before its first chunk.
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

// ContextError returns the error of a call whose context ended: of kind Cancelled or
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
	// A silent call has taken minutes: the caller repeats it once, and a surface gives up
	// after five.
	if errors.As(err, &f) && (f.Code == CodeBadAnswer || f.Code == CodeSilent) {
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

// pause returns the delay that the server asked for, otherwise an exponential backoff of
// which half is random.
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

// Sleep waits for d, or until ctx ends and then returns its error.
func Sleep(ctx context.Context, d time.Duration) error {
	if !delay.Wait(ctx, d) {
		return ctx.Err()
	}
	return nil
}
