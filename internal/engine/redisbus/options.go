package redisbus

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"os"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"lilac/internal/engine/delivery"
	"lilac/internal/foundation/fault"
)

// Options say which Redis to use and how. The zero value of all but URL works.
type Options struct {
	delivery.Options
	// URL is redis://user:password@host:port/db, rediss:// for TLS, or either
	// with the addresses of sentinels and ?master_set=NAME.
	URL string
	// Password replaces the one in URL.
	Password string
	// SentinelPassword is what sentinels want, when they want one.
	SentinelPassword string
	// CAFile is a PEM file of authorities to trust beside those of the system.
	CAFile string
	// Prefix begins every key; default "lilac".
	Prefix string
	// AcceptLoss uses a Redis without an append-only file.
	AcceptLoss bool
	// ReplyWithin bounds one exchange with Redis, and twice an attempt to connect;
	// default three seconds.
	ReplyWithin time.Duration
	// late is called before a batch is sent that nobody waits for; tests let one
	// overtake another with it.
	late func()
}

// DefaultPrefix begins the keys of who sets no other prefix.
const DefaultPrefix = "lilac"

func (o Options) withDefaults() Options {
	o.Options, o.Prefix, o.ReplyWithin = o.WithDefaults(), cmp.Or(o.Prefix, DefaultPrefix), cmp.Or(o.ReplyWithin, replyWithin)
	return o
}

const (
	// replyWithin is well below the five seconds in which work must go on after an
	// outage, and well above what a busy machine needs.
	replyWithin = 3 * time.Second
	// ringScale gives a connection 256 places for commands in flight; the
	// forwarder has two on their way at most and readers a handful.
	ringScale = 8
	// bufferSize is what a connection reads and writes at once. The library's
	// half a megabyte each is for clients with thousands in flight.
	bufferSize = 64 << 10
	// keepAlive is how often a quiet connection is made to carry something. One
	// that is broken is noticed when it is used.
	keepAlive = 15 * time.Second
	// topologyEvery is how often sentinels are asked who is the master, should
	// their announcement get lost.
	topologyEvery = 2 * time.Second
)

// client makes the options of the client, or says what is wrong with ours.
func (o Options) client() (rueidis.ClientOption, error) {
	c, err := rueidis.ParseURL(o.URL)
	if err != nil {
		// The library's error may repeat the URL, and with it the password.
		return c, fault.InvalidField("bus.url", "The URL of Redis is not valid. It must be like redis://user:password@host:6379/0 or rediss://….")
	}
	if o.Password != "" {
		c.Password = o.Password
	}
	if o.CAFile != "" {
		if c.TLSConfig == nil {
			return c, fault.InvalidField("bus.caFile", "An authority is set, but the URL of Redis begins with redis://. Use rediss:// for TLS.")
		}
		if c.TLSConfig.RootCAs, err = authorities(o.CAFile); err != nil {
			return c, err
		}
	}
	dialWithin := o.ReplyWithin / 2 // the next attempt follows at once
	c.ForceSingleClient = c.Sentinel.MasterSet == ""
	if !c.ForceSingleClient {
		c.Sentinel.TopologyRefreshInterval = topologyEvery
		c.Sentinel.Password = o.SentinelPassword
		c.Sentinel.Dialer.Timeout = dialWithin
		c.Sentinel.TLSConfig = withoutServerName(c.TLSConfig)
		c.TLSConfig = withoutServerName(c.TLSConfig)
	} else if len(c.InitAddress) > 1 {
		return c, fault.InvalidField("bus.url", "The URL of Redis names several servers. That needs sentinels: add ?master_set=NAME. Redis Cluster is not supported.")
	}
	c.Dialer.Timeout = dialWithin
	c.Dialer.KeepAlive = keepAlive
	c.ConnWriteTimeout = o.ReplyWithin
	c.DisableCache, c.DisableRetry = true, true
	// One connection: what is sent first is done first.
	c.PipelineMultiplex = -1
	c.RingScaleEachConn, c.ReadBufferEachConn, c.WriteBufferEachConn = ringScale, bufferSize, bufferSize
	c.ClientName = "lilac"
	return c, nil
}

// withoutServerName lets each server be verified by the address that was
// dialled: sentinels name the master by another one than the URL.
func withoutServerName(c *tls.Config) *tls.Config {
	if c == nil {
		return nil
	}
	c = c.Clone()
	c.ServerName = ""
	return c
}

func authorities(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "The file of authorities %s cannot be read", file)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fault.InvalidField("bus.caFile", "The file %s holds no certificate in PEM form.", file)
	}
	return pool, nil
}

// masterSet is what the sentinels call the master, empty without sentinels.
func (o Options) masterSet() string { return o.parsed().Sentinel.MasterSet }

// hasPassword reports whether the server is given a password.
func (o Options) hasPassword() bool { return o.Password != "" || o.parsed().Password != "" }

// parsed is what the URL says; that it is one was found out before.
func (o Options) parsed() rueidis.ClientOption {
	c, _ := rueidis.ParseURL(o.URL)
	return c
}

// server names the server in messages, without secrets.
func (o Options) server() string { return Server(o.URL) }

// Server is the host and the port in the URL of a Redis, or several of them:
// what may be told to the operator, and not to everybody.
func Server(url string) string {
	_, rest, _ := strings.Cut(url, "://")
	if i := strings.LastIndex(rest, "@"); i >= 0 {
		rest = rest[i+1:]
	}
	host, _, _ := strings.Cut(rest, "/")
	host, _, _ = strings.Cut(host, "?")
	return host
}
