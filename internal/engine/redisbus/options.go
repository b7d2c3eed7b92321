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

// Options configure the connection to Redis. Only URL is required.
type Options struct {
	delivery.Options
	// URL is redis://user:password@host:port/db, rediss:// for TLS, or either
	// with the addresses of sentinels and ?master_set=NAME.
	URL string
	// Password replaces the one in URL.
	Password string
	// SentinelPassword is the password of the sentinels, if they require one.
	SentinelPassword string
	// CAFile is a PEM file of certificate authorities to trust in addition to those of
	// the system.
	CAFile string
	// Prefix begins every key; default "lilac".
	Prefix string
	// AcceptLoss allows a Redis without an append-only file, which can lose events.
	AcceptLoss bool
	// ReplyWithin is the timeout of one exchange with Redis; default three seconds. The
	// timeout for connecting is half of it.
	ReplyWithin time.Duration
	// late is called before a pipelined batch is sent. Tests use it to let one batch
	// overtake another.
	late func()
}

// DefaultPrefix is the default of [Options].Prefix.
const DefaultPrefix = "lilac"

func (o Options) withDefaults() Options {
	o.Options, o.Prefix, o.ReplyWithin = o.WithDefaults(), cmp.Or(o.Prefix, DefaultPrefix), cmp.Or(o.ReplyWithin, replyWithin)
	return o
}

const (
	// replyWithin is well below the five seconds within which work must resume after an
	// outage, and well above the reply time of a busy machine.
	replyWithin = 3 * time.Second
	// ringScale is the binary logarithm of the commands that a connection can have in
	// flight: 256. The forwarder has at most two in flight, readers a few.
	ringScale = 8
	// bufferSize is the size of the read and of the write buffer of a connection, in
	// bytes. The library's default, 512 KiB, suits clients with thousands of commands in
	// flight.
	bufferSize = 64 << 10
	// keepAlive is the TCP keep-alive interval of an idle connection. Commands notice a
	// broken connection sooner.
	keepAlive = 15 * time.Second
	// topologyEvery is how often the client asks the sentinels for the master, in case
	// their announcement of a new one was lost.
	topologyEvery = 2 * time.Second
)

// client returns the options of the rueidis client, or an error if o is invalid.
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
	// One connection, so that Redis executes commands in the order they were sent.
	c.PipelineMultiplex = -1
	c.RingScaleEachConn, c.ReadBufferEachConn, c.WriteBufferEachConn = ringScale, bufferSize, bufferSize
	c.ClientName = "lilac"
	return c, nil
}

// withoutServerName makes the client verify each server's certificate against the
// dialed address, because the sentinels report an address for the master that is not in
// the URL.
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

// masterSet returns the sentinels' name of the master, or "" without sentinels.
func (o Options) masterSet() string { return o.parsed().Sentinel.MasterSet }

// hasPassword reports whether a password for the server is set.
func (o Options) hasPassword() bool { return o.Password != "" || o.parsed().Password != "" }

// parsed returns the options in the URL. Open has already checked that the URL is valid.
func (o Options) parsed() rueidis.ClientOption {
	c, _ := rueidis.ParseURL(o.URL)
	return c
}

// server returns the name of the server for messages, without secrets.
func (o Options) server() string { return Server(o.URL) }

// Server returns the host and port, or several of them, in a Redis URL. Show it to the
// operator only, not to other users.
func Server(url string) string {
	_, rest, _ := strings.Cut(url, "://")
	if i := strings.LastIndex(rest, "@"); i >= 0 {
		rest = rest[i+1:]
	}
	host, _, _ := strings.Cut(rest, "/")
	host, _, _ = strings.Cut(host, "?")
	return host
}
