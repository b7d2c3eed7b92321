package redisbus

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

// link is the connection to Redis and its state.
type link struct {
	prefix string
	claim  string        // the key of the claim
	within time.Duration // the timeout of one exchange

	// epoch is this process's epoch; 0 while Redis is unavailable or lacks
	// acknowledged batches.
	epoch atomic.Int64
	// acked is the number of the newest batch that Redis acknowledged.
	acked atomic.Int64
	// reads adapts the number of entries per read of a stream.
	reads batchSizer
	// doubts signals the forwarder to check the connection. It has one slot.
	doubts chan struct{}

	mu     sync.Mutex
	client rueidis.Client
	// dropped is set when the client is closed and must be replaced.
	dropped bool
	// why says why Redis is unusable, nil while it is usable. reported holds the
	// error texts that were logged during the current outage.
	why      error
	reported []string
}

// reportedMax is the maximum number of different errors to log per outage.
const reportedMax = 16

func newLink(opt Options) *link {
	return &link{prefix: opt.Prefix, claim: opt.Prefix + ":claim", within: opt.ReplyWithin, doubts: make(chan struct{}, 1), why: errNotConnected}
}

var errNotConnected = fault.New(fault.Unavailable, "Redis has not been reached yet.")

// topicKeys are the keys of one topic.
type topicKeys struct{ stream, ids, meta string }

func (l *link) keys(topic event.Topic) topicKeys {
	return topicKeys{
		stream: l.prefix + ":s:" + string(topic),
		ids:    l.prefix + ":i:" + string(topic),
		meta:   l.prefix + ":m:" + string(topic),
	}
}

// away returns the reason why Redis is unusable, or nil.
func (l *link) away() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.why
}

// set records why Redis is unusable, or that it is usable (nil). It reports whether
// the change should be logged.
func (l *link) set(why error) (news bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch text := troubleText(why); {
	case why == nil:
		news = l.why != nil
		l.reported = nil
	case !slices.Contains(l.reported, text) && len(l.reported) < reportedMax:
		news = true
		l.reported = append(l.reported, text)
	}
	l.why = why
	return news
}

// troubleText returns the text of an error without the parts that differ at each
// attempt: the local port, and the time at which a certificate was checked.
func troubleText(err error) string {
	if e, is := errors.AsType[*net.OpError](err); is && e.Err != nil {
		return e.Op + " " + e.Err.Error()
	}
	if e, is := errors.AsType[x509.CertificateInvalidError](err); is {
		return fmt.Sprint("certificate ", e.Reason)
	}
	if err == nil {
		return ""
	}
	return err.Error()
}

// reading returns the client and a check for the reply to the claim query that each
// read sends first. The check fails if Redis lacks acknowledged batches; then the
// caller must discard what it read.
func (l *link) reading() (rueidis.Client, func(rueidis.RedisResult) error, error) {
	l.mu.Lock()
	client, why := l.client, l.why
	l.mu.Unlock()
	epoch, acked := l.epoch.Load(), l.acked.Load()
	switch {
	case isRefusal(why):
		// The reader made no mistake, so it gets Unavailable and may retry.
		return nil, nil, &fault.Error{Kind: fault.Unavailable, Code: codeRefused, Message: fault.ToWire(why).Message}
	case why != nil && fault.KindOf(why) != fault.Unavailable:
		return nil, nil, l.unreadable(why) // the reader may retry
	case why != nil:
		return nil, nil, why
	}
	return client, func(reply rueidis.RedisResult) error {
		c, err := readClaim(reply)
		if err != nil {
			return l.unreadable(err)
		}
		if !c.whole(epoch, acked) {
			l.doubt()
			return fault.Wrap(fault.Unavailable, errNotWhole, "Redis cannot be read now")
		}
		return nil
	}, nil
}

// ask checks that Redis is reachable and has all acknowledged batches.
func (l *link) ask(ctx context.Context) error {
	client, check, err := l.reading()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, l.within)
	defer cancel()
	return check(client.Do(ctx, client.B().Hmget().Key(l.claim).Field("epoch", "batch").Build()))
}

// doubt makes the forwarder check the connection.
func (l *link) doubt() {
	select {
	case l.doubts <- struct{}{}:
	default:
	}
}

func (l *link) unreadable(err error) error {
	l.doubt()
	return fault.Wrap(fault.Unavailable, err, "Redis cannot be read now")
}

// claimState is the content of the claim. The epoch is 0 if there is no claim.
type claimState struct{ epoch, batch int64 }

// whole reports whether this process holds the claim and Redis has all batches up to
// acked.
func (c claimState) whole(epoch, acked int64) bool { return c.epoch == epoch && c.batch >= acked }

// readClaim reads the reply to "HMGET claim epoch batch".
func readClaim(reply rueidis.RedisResult) (c claimState, err error) {
	values, err := reply.ToArray()
	if err != nil {
		return c, err
	}
	for i, into := range []*int64{&c.epoch, &c.batch} {
		if i >= len(values) || values[i].IsNil() {
			return claimState{}, nil
		}
		text, err := values[i].ToString()
		if err != nil {
			return c, err
		}
		if *into, err = strconv.ParseInt(text, 10, 64); err != nil {
			return c, fmt.Errorf("read the claim: %w", err)
		}
	}
	return c, nil
}

// look reads the claim from Redis.
func (l *link) look(ctx context.Context) (claimState, error) {
	ctx, cancel := context.WithTimeout(ctx, l.within)
	defer cancel()
	client := l.connected()
	return readClaim(client.Do(ctx, client.B().Hmget().Key(l.claim).Field("epoch", "batch").Build()))
}

func (l *link) connected() rueidis.Client {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.client
}

// drop gives up a connection that no longer replies. The returned function closes it,
// which can block.
func (l *link) drop() (finish func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.client == nil || l.dropped {
		return func() {}
	}
	l.dropped = true
	return l.client.Close
}

// run executes a script with a timeout.
func (l *link) run(ctx context.Context, script *rueidis.Lua, keys, args []string) rueidis.RedisResult {
	ctx, cancel := context.WithTimeout(ctx, l.within)
	defer cancel()
	return script.Exec(ctx, l.connected(), keys, args)
}

func (l *link) close() {
	l.epoch.Store(0)
	l.mu.Lock()
	client, dropped := l.client, l.dropped
	l.client, l.why = nil, errClosed
	l.mu.Unlock()
	if client != nil && !dropped {
		client.Close()
	}
}

var errClosed = &fault.Error{Kind: fault.Unavailable, Code: "closed", Message: "The bus is closed."}

// refused reports whether a script failed with the given code, and returns the text
// after the code.
func refused(err error, code string) (rest string, ok bool) {
	reply, is := rueidis.IsRedisErr(err)
	if !is {
		return "", false
	}
	rest, ok = strings.CutPrefix(reply.Error(), code)
	return strings.TrimSpace(rest), ok
}
