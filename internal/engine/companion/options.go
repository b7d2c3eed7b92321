package companion

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"lilac/internal/engine/delivery"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

// Options configure the connection to Redis and connect it to the bus.
type Options struct {
	// URL is redis://user:password@host:port/db, rediss:// for TLS, or unix:///path?db=0 for a
	// socket. Several addresses (?addr=…) are nodes of a cluster, or sentinels with
	// &master_set=NAME.
	URL string
	// Password replaces the one in URL.
	Password string
	// SentinelPassword is the password of the sentinels, if they require one.
	SentinelPassword string
	// CAFile is a PEM file of certificate authorities to trust in addition to those of
	// the system. It is read for each connection.
	CAFile string
	// CertFile and KeyFile are PEM files with the certificate and the key of Lilac, for a server that
	// wants one. They are read for each connection, too.
	CertFile, KeyFile string
	// Prefix begins every key; default "lilac".
	Prefix string
	// ReplyWithin is the timeout of one exchange with Redis; default three seconds. An event that is
	// too large for that gets more time at each attempt.
	ReplyWithin time.Duration

	// CheckEvery is how often the mirror looks for what it did not do itself, such as a
	// deleted key; default two seconds.
	CheckEvery time.Duration

	// Store is the id of the database, which owns the prefix.
	Store string
	// Log has the events.
	Log delivery.Log
	// Topics lists the topics to mirror: all of the log but outputs that have had no
	// event since a time in Unix milliseconds.
	Topics func(ctx context.Context, since int64) ([]event.Topic, error)
	// Publish publishes an event that was handed in as the entry with an id. An error of
	// the kinds Internal and Unavailable is retried; others reject the entry.
	Publish func(ctx context.Context, entry string, event []byte) error
	// Logger gets what happens to the connection; default: discarded.
	Logger *slog.Logger
}

const (
	// DefaultPrefix is the default of [Options].Prefix.
	DefaultPrefix = "lilac"
	checkEvery    = 2 * time.Second
	// replyWithin is well above the reply time of a busy machine.
	replyWithin = 3 * time.Second
	// mostPatience is the largest bound of an exchange, as a multiple of ReplyWithin. patienceAge is
	// the time without a slow exchange after which ReplyWithin is the bound again.
	mostPatience = 16
	patienceAge  = 10 * time.Minute
	// ringScale is the binary logarithm of the commands that a connection can have in
	// flight.
	ringScale = 9
	// bufferSize is the size in bytes of the read and of the write buffer of a
	// connection. The library's default is 512 KiB.
	bufferSize = 64 << 10
	// keepAlive is the TCP keep-alive interval of an idle connection.
	keepAlive = 15 * time.Second
	// topologyEvery is how often the client asks the sentinels for the master, in case
	// their announcement of a new one was lost.
	topologyEvery = 2 * time.Second
)

func (o Options) withDefaults() Options {
	o.Prefix, o.ReplyWithin = cmp.Or(o.Prefix, DefaultPrefix), cmp.Or(o.ReplyWithin, replyWithin)
	o.CheckEvery = cmp.Or(o.CheckEvery, checkEvery)
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	return o
}

// client returns the options of the rueidis client, or an error if o is invalid.
func (o Options) client() (rueidis.ClientOption, error) {
	// Many URLs end in a slash without a number, which the library refuses.
	address, query, _ := strings.Cut(o.URL, "?")
	c, err := rueidis.ParseURL(strings.TrimSuffix(address, "/") + "?" + query)
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
	if o.CertFile != "" {
		if c.TLSConfig == nil {
			return c, fault.InvalidField("bus.certFile", "A certificate is set, but the URL of Redis does not begin with rediss://, for TLS.")
		}
		pair, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
		if err != nil {
			return c, fault.Wrap(fault.Invalid, err, "The certificate and the key in bus.certFile and bus.keyFile cannot be used")
		}
		c.TLSConfig.Certificates = []tls.Certificate{pair}
	}
	dialWithin := o.ReplyWithin / 2 // the next attempt follows at once
	if c.Sentinel.MasterSet != "" {
		c.Sentinel.TopologyRefreshInterval = topologyEvery
		c.Sentinel.Password = o.SentinelPassword
		c.Sentinel.Dialer.Timeout = dialWithin
		c.Sentinel.TLSConfig = withoutServerName(c.TLSConfig)
	}
	if c.Sentinel.MasterSet != "" || len(c.InitAddress) > 1 {
		c.TLSConfig = withoutServerName(c.TLSConfig)
	}
	// A cluster has one database. Otherwise, the client asks the server what it is.
	c.ForceSingleClient = (c.SelectDB != 0 || network(c.InitAddress[0]) == "unix") && c.Sentinel.MasterSet == "" && len(c.InitAddress) == 1
	c.Dialer.Timeout = dialWithin
	c.Dialer.KeepAlive = keepAlive
	c.ConnWriteTimeout = mostPatience * o.ReplyWithin // the contexts of the calls end them earlier
	c.DisableCache, c.DisableRetry = true, true
	c.PipelineMultiplex = -1 // one connection for what does not block
	c.RingScaleEachConn, c.ReadBufferEachConn, c.WriteBufferEachConn = ringScale, bufferSize, bufferSize
	c.ClientName = "lilac"
	return c, nil
}

// network returns the network of an address, which for a socket is its path.
func network(addr string) string {
	if strings.HasPrefix(addr, "/") {
		return "unix"
	}
	return "tcp"
}

// dial connects to Redis. The connections end with ctx: the library would wait for a read
// that blocks.
func (o Options) dial(ctx context.Context) (rueidis.Client, error) {
	c, err := o.client()
	if err != nil {
		return nil, err
	}
	var refusal atomic.Pointer[string]
	c.DialCtxFn = func(dialing context.Context, addr string, d *net.Dialer, secure *tls.Config) (conn net.Conn, err error) {
		if conn, err = d.DialContext(dialing, network(addr), addr); err != nil {
			return nil, err
		}
		raw := conn
		conn = &boundConn{Conn: raw, stop: context.AfterFunc(ctx, func() { _ = raw.Close() }), refusal: &refusal}
		if secure == nil {
			return conn, nil
		}
		if secure.ServerName == "" {
			secure = secure.Clone()
			secure.ServerName, _, _ = net.SplitHostPort(addr)
		}
		// The library limits the time for the connection and for the first command only. A
		// server without TLS waits for the rest of a command.
		dialing, cancel := context.WithTimeout(dialing, c.Dialer.Timeout)
		defer cancel()
		tlsConn := tls.Client(conn, secure)
		if err := tlsConn.HandshakeContext(dialing); err != nil {
			_ = conn.Close() // a handshake that ends with its context has closed it
			return nil, err
		}
		return tlsConn, nil
	}
	client, err := rueidis.NewClient(c)
	if err != nil {
		if said := refusal.Load(); said != nil {
			return nil, o.explainReply(*said)
		}
		return nil, o.explain(err)
	}
	return client, nil
}

// boundConn is a connection that ends with a context.
type boundConn struct {
	net.Conn
	stop func() bool
	// refusal gets the error reply with which the server begins, or nil after another one.
	// In protected mode, and with too many clients, Redis sends one and closes the
	// connection, and the library returns io.EOF.
	refusal *atomic.Pointer[string]
	begun   bool
}

// Read reads from the connection.
func (c *boundConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && !c.begun {
		c.begun = true
		c.refusal.Store(nil)
		if reply, ok := strings.CutPrefix(string(p[:min(n, maxReply)]), "-"); ok {
			reply = strings.TrimPrefix(reply, "ERR ")
			c.refusal.Store(&reply)
		}
	}
	return n, err
}

// Close closes the connection.
func (c *boundConn) Close() error {
	c.stop()
	return c.Conn.Close()
}

// withoutServerName makes the client verify each server's certificate against the
// dialed address, because sentinels and clusters report addresses that are not in the
// URL.
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

// Server returns the host and port, or several of them, or the path of a socket, in a Redis URL. Show it to the
// operator only, not to other users.
func Server(url string) string {
	_, rest, _ := strings.Cut(url, "://")
	if i := strings.LastIndex(rest, "@"); i >= 0 {
		rest = rest[i+1:]
	}
	rest, _, _ = strings.Cut(rest, "?")
	host, _, _ := strings.Cut(rest, "/")
	return cmp.Or(host, rest) // without a host, it is the path of a socket
}

// key returns the name of a key below the prefix.
func (o Options) key(name string) string { return o.Prefix + ":" + name }

func (o Options) stream(topic event.Topic) string { return o.key("s:" + string(topic)) }
