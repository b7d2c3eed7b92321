package discord

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/disgoorg/disgo/rest"

	"lilac/internal/foundation/fault"
)

const (
	// perSecond is below the 50 requests per second that a bot may make
	// ("Rate Limits", global rate limit): on their way they bunch up.
	perSecond = 40
	// resetMargin is added to what Discord says, whose clock runs elsewhere.
	resetMargin = 100 * time.Millisecond
	// maxBuckets bounds what is remembered of routes.
	maxBuckets = 10_000
	// maxInvalid and invalidWindow keep far away from the 10,000 refused
	// requests in ten minutes after which Discord bans the address ("Rate
	// Limits", invalid request limit).
	maxInvalid    = 1_000
	invalidWindow = 10 * time.Minute
	// tokenPause is when a token is tried again that was refused: one refusal may
	// be a mistake of Discord's.
	tokenPause = time.Minute
)

// limiter keeps Discord's limits for the library: one request at a time in
// each bucket, none in a spent one, and a bound for all. The library's own
// cuts fractions of seconds off and knows no bound for all.
type limiter struct {
	mu      sync.Mutex
	buckets map[string]*bucket
	// routes says which bucket a route has turned out to share.
	routes map[string]string
	held   map[*rest.CompiledEndpoint]*bucket
	// global is when everything may go on after a global 429.
	global time.Time
	// recent are the times of the last perSecond requests, a ring.
	recent [perSecond]time.Time
	next   int
	// invalid counts refused requests since invalidSince.
	invalid      int
	invalidSince time.Time
	// badToken is when Discord has refused the token, zero when it takes it;
	// nothing is tried for tokenPause then.
	badToken time.Time
}

// bucket is one of Discord's buckets; who holds turn may make a request.
type bucket struct {
	turn      chan struct{}
	remaining int
	reset     time.Time
}

var _ rest.RateLimiter = (*limiter)(nil)

func newLimiter() *limiter {
	return &limiter{buckets: map[string]*bucket{}, routes: map[string]string{}, held: map[*rest.CompiledEndpoint]*bucket{}}
}

// MaxRetries implements [rest.RateLimiter]: we repeat by ourselves, because
// not every 429 passes.
func (l *limiter) MaxRetries() int { return 1 }

// Close implements [rest.RateLimiter]; requests end with their contexts.
func (l *limiter) Close(context.Context) {}

// Reset implements [rest.RateLimiter]; what is known of limits stays true.
func (l *limiter) Reset() {}

func routeOf(e *rest.CompiledEndpoint) string {
	return e.Endpoint.Method + " " + e.Endpoint.Route + " " + e.MajorParams
}

// bucketOf returns the bucket of a route, and makes it.
func (l *limiter) bucketOf(route string) *bucket {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := route
	if shared, ok := l.routes[route]; ok {
		key = shared
	}
	b := l.buckets[key]
	if b == nil {
		l.sweepLocked()
		b = &bucket{turn: make(chan struct{}, 1), remaining: 1}
		l.buckets[key] = b
	}
	return b
}

// sweepLocked forgets buckets that are full again when there are too many.
func (l *limiter) sweepLocked() {
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
	clear(l.routes)
}

// Wait implements [rest.RateLimiter]. A wait beyond the context's deadline is
// not begun: nothing was sent then, and the error says so.
func (l *limiter) Wait(ctx context.Context, e *rest.CompiledEndpoint) error {
	route := routeOf(e)
	for {
		b := l.bucketOf(route)
		select {
		case b.turn <- struct{}{}:
		case <-ctx.Done():
			return notSent(ctx.Err(), 0)
		}
		if l.bucketOf(route) != b {
			<-b.turn // it turned out to share another one
			continue
		}
		if err := l.waitFor(ctx, b, e); err != nil {
			<-b.turn
			return err
		}
		l.mu.Lock()
		l.held[e] = b
		l.mu.Unlock()
		return nil
	}
}

func (l *limiter) waitFor(ctx context.Context, b *bucket, e *rest.CompiledEndpoint) error {
	for {
		until, err := l.reserve(b, e)
		if err != nil || until.IsZero() {
			return err
		}
		wait := time.Until(until)
		if deadline, ok := ctx.Deadline(); ok && until.After(deadline) {
			return notSent(context.DeadlineExceeded, wait)
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return notSent(ctx.Err(), wait)
		}
	}
}

func notSent(cause error, wait time.Duration) error {
	err := fault.Wrap(fault.RateLimited, cause, "Discord wants us to wait before the next request.")
	err.RetryAfter = wait
	return err
}

// reserve takes a place for a request now, or says when to ask again.
func (l *limiter) reserve(b *bucket, e *rest.CompiledEndpoint) (time.Time, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	switch {
	case !l.badToken.IsZero() && now.Sub(l.badToken) < tokenPause && e.Endpoint.BotAuth:
		return time.Time{}, errBadToken
	case now.Sub(l.invalidSince) > invalidWindow:
		l.invalid, l.invalidSince = 0, now
	case l.invalid >= maxInvalid:
		return time.Time{}, fault.New(fault.Unavailable, "Discord has refused so many requests that Lilac makes no more for a few minutes: it would ban the address. The log says what was refused.")
	}
	if b.remaining <= 0 && b.reset.After(now) {
		return b.reset, nil
	}
	if e.Endpoint == rest.CreateInteractionResponse {
		return time.Time{}, nil // not bound to the limit for all ("Receiving and Responding")
	}
	if l.global.After(now) {
		return l.global, nil
	}
	if oldest := l.recent[l.next]; now.Sub(oldest) < time.Second {
		return oldest.Add(time.Second), nil
	}
	l.recent[l.next] = now
	l.next = (l.next + 1) % perSecond
	return time.Time{}, nil
}

// Unlock implements [rest.RateLimiter]: it reads what an answer says about
// limits. A header that makes no sense is one that was not sent.
func (l *limiter) Unlock(e *rest.CompiledEndpoint, rs *http.Response) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.held[e]
	if b == nil {
		return nil
	}
	delete(l.held, e)
	turn := b.turn
	defer func() { <-turn }()
	if rs == nil {
		b.remaining-- // Discord may have counted it
		return nil
	}
	now := time.Now()
	if e.Endpoint.BotAuth && rs.StatusCode < http.StatusMultipleChoices {
		l.badToken = time.Time{}
	}
	switch rs.StatusCode {
	case http.StatusUnauthorized:
		l.invalid++
		if e.Endpoint.BotAuth {
			l.badToken = now
		}
	case http.StatusForbidden:
		l.invalid++
	case http.StatusTooManyRequests:
		if rs.Header.Get("X-RateLimit-Scope") != "shared" {
			l.invalid++
		}
	}
	if hash := rs.Header.Get("X-RateLimit-Bucket"); hash != "" {
		b = l.shareLocked(routeOf(e), hash+" "+e.MajorParams, b)
	}
	if n, err := strconv.Atoi(rs.Header.Get("X-RateLimit-Remaining")); err == nil {
		b.remaining = n
	}
	if after, ok := seconds(rs.Header, "X-RateLimit-Reset-After"); ok {
		b.reset = now.Add(after + resetMargin)
	}
	if after, ok := seconds(rs.Header, "Retry-After"); ok && rs.StatusCode == http.StatusTooManyRequests {
		until := now.Add(after + resetMargin)
		if rs.Header.Get("X-RateLimit-Global") != "" || rs.Header.Get("X-RateLimit-Scope") == "global" || rs.Header.Get("X-RateLimit-Bucket") == "" {
			l.global = until
		} else {
			b.remaining, b.reset = 0, until
		}
	}
	return nil
}

// refusesToken reports whether Discord has refused the token and not taken it
// since.
func (l *limiter) refusesToken() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.badToken.IsZero()
}

// shareLocked notes that a route belongs to a bucket which other routes may
// use, and returns that bucket.
func (l *limiter) shareLocked(route, shared string, b *bucket) *bucket {
	if l.routes[route] != shared {
		l.routes[route] = shared
		delete(l.buckets, route)
	}
	if l.buckets[shared] == nil {
		l.buckets[shared] = b
	}
	return l.buckets[shared]
}

func seconds(h http.Header, name string) (time.Duration, bool) {
	s, err := strconv.ParseFloat(h.Get(name), 64)
	if err != nil || s < 0 || s > 86_400 {
		return 0, false
	}
	return time.Duration(s * float64(time.Second)), true
}
