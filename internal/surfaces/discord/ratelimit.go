package discord

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"lilac/internal/foundation/delay"
	"lilac/internal/foundation/fault"
)

const (
	// maxPerSecond is below the 50 requests per second that a bot may make
	// ("Rate Limits", global rate limit), because requests bunch up on their way.
	maxPerSecond = 40
	// resetMargin is added to the times that Discord states: its clock differs.
	resetMargin = 100 * time.Millisecond
	// maxBuckets bounds how many buckets are remembered.
	maxBuckets = 10_000
	// maxInvalid and invalidWindow stay far below the 10,000 invalid requests in
	// ten minutes after which Discord bans the address ("Rate Limits", invalid
	// request limit).
	maxInvalid    = 1_000
	invalidWindow = 10 * time.Minute
	// tokenRetry is the wait before a rejected token is tried again; a single
	// rejection may be an error on Discord's side.
	tokenRetry = time.Minute
	// bannedPause is the wait after a 429 that states none and has no code, as a page or
	// as JSON: the network in front of Discord has banned the address, and calls prolong
	// that.
	bannedPause = time.Minute
)

// limiter keeps Discord's rate limits: one request at a time per bucket, none
// in an exhausted bucket, and a global limit. It is safe for concurrent use.
// Lock order: a bucket's turn comes before mu.
type limiter struct {
	mu      sync.Mutex
	buckets map[string]*bucket
	// shared maps the limit key of a route to the bucket that Discord named.
	shared map[string]string
	// resumeAt is when requests may continue after a global 429.
	resumeAt time.Time
	// recent is a ring of the times of the last maxPerSecond requests.
	recent [maxPerSecond]time.Time
	next   int
	// invalid counts invalid requests since invalidSince.
	invalid      int
	invalidSince time.Time
	// tokenRejectedAt is when Discord last rejected the token, zero once it has
	// accepted it.
	tokenRejectedAt time.Time
}

// bucket is one of Discord's buckets. A request holds turn from before it is
// sent until its response has been read.
type bucket struct {
	turn      chan struct{}
	remaining int
	reset     time.Time
}

func newLimiter() *limiter {
	return &limiter{buckets: map[string]*bucket{}, shared: map[string]string{}}
}

// bucketOf returns the bucket of a limit key and creates it if necessary.
func (l *limiter) bucketOf(limitKey string) *bucket {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := limitKey
	if shared, ok := l.shared[limitKey]; ok {
		key = shared
	}
	b := l.buckets[key]
	if b == nil {
		l.evictLocked()
		b = &bucket{turn: make(chan struct{}, 1), remaining: 1}
		l.buckets[key] = b
	}
	return b
}

// evictLocked removes unused buckets that have been reset when there are too
// many.
func (l *limiter) evictLocked() {
	if len(l.buckets) < maxBuckets {
		return
	}
	now := time.Now()
	for key, b := range l.buckets {
		select {
		case b.turn <- struct{}{}:
			if b.reset.Before(now) {
				delete(l.buckets, key)
			}
			<-b.turn
		default: // in use
		}
	}
	clear(l.shared)
}

// acquire waits until the call may be made; the caller must release the bucket.
// If the wait would exceed the context's deadline, acquire fails at once, and
// the error says that nothing was sent.
func (l *limiter) acquire(ctx context.Context, k call) (*bucket, error) {
	for {
		b := l.bucketOf(k.limitKey)
		select {
		case b.turn <- struct{}{}:
		case <-ctx.Done():
			return nil, notSent(ctx.Err(), 0)
		}
		if l.bucketOf(k.limitKey) != b {
			<-b.turn // another response moved the route to a shared bucket
			continue
		}
		if err := l.wait(ctx, b, k); err != nil {
			<-b.turn
			return nil, err
		}
		return b, nil
	}
}

func (l *limiter) wait(ctx context.Context, b *bucket, k call) error {
	for {
		until, err := l.reserve(b, k)
		if err != nil || until.IsZero() {
			return err
		}
		wait := time.Until(until)
		if deadline, ok := ctx.Deadline(); ok && until.After(deadline) {
			return notSent(context.DeadlineExceeded, wait)
		}
		if !delay.Wait(ctx, wait) {
			return notSent(ctx.Err(), wait)
		}
	}
}

func notSent(cause error, wait time.Duration) error {
	err := fault.Wrap(fault.RateLimited, cause, "Discord's rate limit requires a wait before the next request.")
	err.RetryAfter = wait
	return err
}

// reserve counts a request against the limits, or returns when to try again.
func (l *limiter) reserve(b *bucket, k call) (time.Time, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	switch {
	case !l.tokenRejectedAt.IsZero() && now.Sub(l.tokenRejectedAt) < tokenRetry && !k.route.withoutToken:
		return time.Time{}, errBadToken
	case now.Sub(l.invalidSince) > invalidWindow:
		l.invalid, l.invalidSince = 0, now
	case l.invalid >= maxInvalid:
		return time.Time{}, fault.New(fault.Unavailable, "Discord refused so many requests that Lilac pauses for a few minutes, because Discord would ban the address. The log says what was refused.")
	}
	if b.remaining <= 0 && b.reset.After(now) {
		return b.reset, nil
	}
	if k.route == createInteractionResponse {
		return time.Time{}, nil // exempt from the global limit ("Receiving and Responding")
	}
	if l.resumeAt.After(now) {
		return l.resumeAt, nil
	}
	if oldest := l.recent[l.next]; now.Sub(oldest) < time.Second {
		return oldest.Add(time.Second), nil
	}
	l.recent[l.next] = now
	l.next = (l.next + 1) % maxPerSecond
	return time.Time{}, nil
}

// release gives the bucket back and applies the rate limit headers of the
// response, which is nil when none arrived. Malformed headers are ignored.
func (l *limiter) release(b *bucket, k call, response *http.Response) {
	l.mu.Lock()
	defer l.mu.Unlock()
	turn := b.turn
	defer func() { <-turn }()
	if response == nil {
		b.remaining-- // Discord may have counted the request
		return
	}
	now := time.Now()
	l.noteStatusLocked(k, response, now)
	if hash := response.Header.Get("X-RateLimit-Bucket"); hash != "" {
		b = l.shareLocked(k.limitKey, hash+" "+k.resource, b)
	}
	if n, err := strconv.Atoi(response.Header.Get("X-RateLimit-Remaining")); err == nil {
		b.remaining = n
	}
	if after, ok := seconds(response.Header, "X-RateLimit-Reset-After"); ok {
		b.reset = now.Add(after + resetMargin)
	}
	if after, ok := retryAfter(response.Header); ok && response.StatusCode == http.StatusTooManyRequests {
		until := now.Add(after + resetMargin)
		if response.Header.Get("X-RateLimit-Global") != "" || response.Header.Get("X-RateLimit-Scope") == "global" || response.Header.Get("X-RateLimit-Bucket") == "" {
			l.resumeAt = until
		} else {
			b.remaining, b.reset = 0, until
		}
	}
}

// noteStatusLocked counts invalid requests and tracks whether the token works.
func (l *limiter) noteStatusLocked(k call, response *http.Response, now time.Time) {
	if !k.route.withoutToken && response.StatusCode < http.StatusMultipleChoices {
		l.tokenRejectedAt = time.Time{}
	}
	switch response.StatusCode {
	case http.StatusUnauthorized:
		l.invalid++
		if !k.route.withoutToken {
			l.tokenRejectedAt = now
		}
	case http.StatusForbidden:
		l.invalid++
	case http.StatusTooManyRequests:
		if response.Header.Get("X-RateLimit-Scope") != "shared" {
			l.invalid++
		}
	}
}

// tokenRejected reports whether Discord has rejected the token and not accepted
// it since.
func (l *limiter) tokenRejected() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.tokenRejectedAt.IsZero()
}

// shareLocked moves a route to a bucket that other routes may share, and returns
// that bucket.
func (l *limiter) shareLocked(limitKey, shared string, b *bucket) *bucket {
	if l.shared[limitKey] != shared {
		l.shared[limitKey] = shared
		delete(l.buckets, limitKey)
	}
	if l.buckets[shared] == nil {
		l.buckets[shared] = b
	}
	return l.buckets[shared]
}

// retryAfter returns the wait that the headers of a 429 ask for. Discord's refusal of
// further edits asks for none.
func retryAfter(h http.Header) (time.Duration, bool) { return seconds(h, "Retry-After") }

// seconds parses a header that holds seconds; anything above a day is invalid.
func seconds(h http.Header, name string) (time.Duration, bool) {
	s, err := strconv.ParseFloat(h.Get(name), 64)
	if err != nil || s < 0 || s > 86_400 {
		return 0, false
	}
	return time.Duration(s * float64(time.Second)), true
}
