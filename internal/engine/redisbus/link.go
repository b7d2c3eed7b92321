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

// link is the connection to Redis and what is believed of it.
type link struct {
	prefix string
	claim  string        // the key
	within time.Duration // bounds one exchange

	// epoch is ours; 0 while Redis is away or not whole.
	epoch atomic.Int64
	// acked is the newest batch that Redis has acknowledged.
	acked atomic.Int64
	// reads is how much of a stream is read at once.
	reads batchSizer
	// doubts has an element when somebody met a Redis that is away or not whole.
	doubts chan struct{}

	mu     sync.Mutex
	client rueidis.Client
	// dropped says that the client is closed and another one is needed.
	dropped bool
	// why says why Redis cannot be used, nil while it can; told is what was news of
	// that since it could the last time.
	why      error
	reported []string
}

// reportedMax bounds what is news of one outage.
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

// away says why Redis cannot be used, or nil.
func (l *link) away() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.why
}

// set notes whether Redis can be used and reports whether that is news.
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

// troubleText is the text of an error without the port that this end had and the
// moment at which a certificate was too old, which are others at each try.
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

// reading returns the client and a check of the claim that was read with what
// else was read: a Redis that is not whole is not believed.
func (l *link) reading() (rueidis.Client, func(rueidis.RedisResult) error, error) {
	l.mu.Lock()
	client, why := l.client, l.why
	l.mu.Unlock()
	epoch, acked := l.epoch.Load(), l.acked.Load()
	switch {
	case isRefusal(why):
		// Who reads has made no mistake, and may wait until it is mended.
		return nil, nil, &fault.Error{Kind: fault.Unavailable, Code: codeRefused, Message: fault.ToWire(why).Message}
	case why != nil && fault.KindOf(why) != fault.Unavailable:
		return nil, nil, l.unreadable(why) // there will be another time, for which who reads may wait
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

// ask asks Redis whether it is there and whole.
func (l *link) ask(ctx context.Context) error {
	client, check, err := l.reading()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, l.within)
	defer cancel()
	return check(client.Do(ctx, client.B().Hmget().Key(l.claim).Field("epoch", "batch").Build()))
}

// doubt has the forwarder look at Redis.
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

// claimState is what the claim says; epoch 0 when there is none.
type claimState struct{ epoch, batch int64 }

// whole reports whether a Redis with this claim is ours and has what it
// acknowledged.
func (c claimState) whole(epoch, acked int64) bool { return c.epoch == epoch && c.batch >= acked }

// readClaim reads the answer to HMGET claim epoch batch.
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

// look reads the claim.
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

// drop gives up a connection on which no answer comes, and returns what closes
// it.
func (l *link) drop() (finish func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.client == nil || l.dropped {
		return func() {}
	}
	l.dropped = true
	return l.client.Close
}

// run executes a script.
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

// refused returns what follows the code in an answer of our scripts.
func refused(err error, code string) (rest string, ok bool) {
	reply, is := rueidis.IsRedisErr(err)
	if !is {
		return "", false
	}
	rest, ok = strings.CutPrefix(reply.Error(), code)
	return strings.TrimSpace(rest), ok
}
