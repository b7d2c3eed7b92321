package discordtest

import (
	"fmt"
	"hash/fnv"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Limit is a rate limit: the number of requests that a route accepts in a window. It
// applies separately to each channel, guild or webhook.
type Limit struct {
	Requests int
	Per      time.Duration
}

// routeLimits are the limits that Discord's headers announced for bots when they were
// last checked. Discord says that limits may change and that clients must read the
// headers (Rate Limits). Other routes use otherLimit.
var routeLimits = map[string]Limit{
	"POST /channels/{channel}/messages":                                   {Requests: 5, Per: 5 * time.Second},
	"PATCH /channels/{channel}/messages/{message}":                        {Requests: 5, Per: 5 * time.Second},
	"DELETE /channels/{channel}/messages/{message}":                       {Requests: 5, Per: time.Second},
	"GET /channels/{channel}/messages":                                    {Requests: 5, Per: 5 * time.Second},
	"GET /channels/{channel}/messages/{message}":                          {Requests: 5, Per: time.Second},
	"POST /channels/{channel}/typing":                                     {Requests: 5, Per: 5 * time.Second},
	"PUT /channels/{channel}/messages/{message}/reactions/{emoji}/@me":    {Requests: 1, Per: 250 * time.Millisecond},
	"DELETE /channels/{channel}/messages/{message}/reactions/{emoji}/@me": {Requests: 1, Per: 250 * time.Millisecond},
}

var otherLimit = Limit{Requests: 50, Per: time.Second}

// knowable is the time within which a client may not yet have read the headers of a
// response. A 429 within this time is not the client's fault, because the two requests
// crossed.
const knowable = 100 * time.Millisecond

// invalidLimit is how many 401, 403 and 429 responses an IP address may receive before
// Discord bans it (Rate Limits, "Invalid Request Limit aka Cloudflare bans"). A 429 with
// the scope "shared" does not count.
var invalidLimit = Limit{Requests: 10_000, Per: 10 * time.Minute}

type limiter struct {
	buckets map[string]*bucket
	global  window
	invalid window
}

type window struct {
	start time.Time
	used  int
}

type bucket struct {
	window
	limit Limit
	// told is the time at which a client could first read this bucket's headers.
	told time.Time
}

// take consumes one request of the window. It returns false if the window is exhausted.
func (w *window) take(l Limit, now time.Time) (reset time.Duration, taken bool) {
	if now.Sub(w.start) >= l.Per || now.Before(w.start) {
		w.start, w.used = now, 0
	}
	reset = w.start.Add(l.Per).Sub(now)
	if w.used >= l.Requests {
		return reset, false
	}
	w.used++
	return reset, true
}

// bucketOf returns the bucket of a request: the hash of its route, and a key that adds
// the major parameter (Rate Limits: channel, guild, or webhook with its token).
func (c *call) bucketOf() (hash, key string) {
	major := c.path("channel")
	if major == "" {
		major = c.path("guild")
	}
	if token := c.path("token"); token != "" {
		major = token
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(c.route)) // never fails
	hash = fmt.Sprintf("%016x", h.Sum64())
	return hash, hash + ":" + major
}

// limitLocked counts a request and sets the rate limit headers. If the request exceeds a
// limit, or a fault asks for a 429, it returns that answer and true.
func (s *core) limitLocked(header http.Header, c *call, f Fault) (answer, bool) {
	now := s.o.Now()
	hash, key := c.bucketOf()
	limit, set := s.o.Limits[c.route]
	if !set {
		if limit, set = routeLimits[c.route]; !set {
			limit = otherLimit
		}
	}
	if f.RetryAfter > 0 {
		if f.Ban {
			header.Del("Via")
		}
		scope := scopeUser
		switch {
		case f.Global:
			scope = scopeGlobal
		case f.Shared:
			scope = scopeShared
		}
		return s.tooMany(header, f.RetryAfter, scope, hash), true
	}
	// The global limit does not apply to interactions (Rate Limits, "Global Rate Limit").
	if s.o.GlobalPerSecond > 0 && !strings.HasPrefix(c.r.URL.Path, apiPrefix+"/interactions/") && !strings.HasPrefix(c.r.URL.Path, apiPrefix+"/webhooks/") {
		if reset, taken := s.limits.global.take(Limit{s.o.GlobalPerSecond, time.Second}, now); !taken {
			s.violateLocked("%s: avoidable 429: more than %d requests in a second", c.route, s.o.GlobalPerSecond)
			return s.tooMany(header, reset, scopeGlobal, hash), true
		}
	}
	if limit.Requests == 0 {
		return answer{}, false
	}
	b := s.limits.buckets[key]
	if b == nil {
		b = &bucket{limit: limit}
		s.limits.buckets[key] = b
	}
	reset, taken := b.take(limit, now)
	header.Set("X-RateLimit-Limit", strconv.Itoa(limit.Requests))
	header.Set("X-RateLimit-Remaining", strconv.Itoa(limit.Requests-b.used))
	header.Set("X-RateLimit-Reset", seconds(time.Duration(now.Add(reset).UnixNano())))
	header.Set("X-RateLimit-Reset-After", seconds(reset))
	header.Set("X-RateLimit-Bucket", hash)
	if taken {
		return answer{}, false
	}
	if !b.told.IsZero() && now.Sub(b.told) >= knowable {
		s.violateLocked("%s: avoidable 429: the headers had said %d in %v", c.route, limit.Requests, limit.Per)
	}
	return s.tooMany(header, reset, scopeUser, hash), true
}

// Forgotten tells the server that the client process has restarted. The new process does
// not know the headers that the old one read, so its first 429 is not a violation.
func (s Faults) Forgotten() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.limits.buckets {
		b.told = time.Time{}
	}
}

// countInvalidLocked counts responses that can lead to a ban.
func (s *core) countInvalidLocked(status int, header http.Header, now time.Time) {
	if status != http.StatusUnauthorized && status != http.StatusForbidden && status != http.StatusTooManyRequests || header.Get(headerScope) == scopeShared {
		return
	}
	if _, taken := s.limits.invalid.take(invalidLimit, now); !taken {
		s.violateLocked("more than %d answers of 401, 403 or 429 in %v: Discord bans the address", invalidLimit.Requests, invalidLimit.Per)
	}
}

// answeredLocked records that the client has received the headers of the call's bucket.
func (l *limiter) answeredLocked(c *call, now time.Time) {
	_, key := c.bucketOf()
	if b := l.buckets[key]; b != nil && b.told.IsZero() {
		b.told = now
	}
}

// The scopes of a 429 and the header that contains the scope (Rate Limits, "Header
// Format").
const (
	headerScope = "X-RateLimit-Scope"
	scopeUser   = "user"
	scopeGlobal = "global"
	scopeShared = "shared"
)

// tooMany builds a 429 response (Rate Limits, "Exceeding A Rate Limit"). A global 429
// does not contain bucket headers.
func (s *core) tooMany(header http.Header, reset time.Duration, scope, hash string) answer {
	header.Set("Retry-After", strconv.Itoa(int(math.Ceil(reset.Seconds()))))
	header.Set(headerScope, scope)
	message := "You are being rate limited."
	switch {
	case scope == scopeGlobal:
		header.Set("X-RateLimit-Global", "true")
	case scope == scopeShared:
		message = "The resource is being rate limited."
		fallthrough
	case header.Get("X-RateLimit-Bucket") == "":
		header.Set("X-RateLimit-Bucket", hash)
		header.Set("X-RateLimit-Remaining", "0")
		header.Set("X-RateLimit-Reset-After", seconds(reset))
	}
	return answer{status: http.StatusTooManyRequests, body: object{
		"code": 0, "message": message, "retry_after": math.Ceil(reset.Seconds()*1000) / 1000, "global": scope == scopeGlobal,
	}}
}

// seconds formats a duration in seconds with three decimals, rounded up.
func seconds(d time.Duration) string {
	return strconv.FormatFloat(math.Ceil(d.Seconds()*1000)/1000, 'f', 3, 64)
}
