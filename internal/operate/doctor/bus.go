package doctor

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"

	"lilac/internal/engine/companion"
	"lilac/internal/foundation/fault"
)

// bus checks Redis, if it is used. It changes nothing. Redis is never the reason why Lilac
// does not start, so its problems are warnings.
func (p Patient) bus(ctx context.Context) Finding {
	const check = "bus"
	if p.Config.Bus.URL == "" {
		return Finding{check, OK, "events are in the database", ""}
	}
	opt, err := p.Config.Bus.Companion()
	if err != nil {
		return Finding{check, Fail, says(err), ""}
	}
	found, err := companion.Inspect(ctx, opt)
	if err != nil {
		wrong, advice, says := strings.Cut(fault.ToWire(err).Message, ". ")
		if !says {
			wrong, advice = err.Error(), adviceForRedis(err)
		}
		return Finding{check, Warn, wrong, "Until then, Lilac works, and other programs see nothing new in Redis. " + advice}
	}
	// If the database cannot be read, its own finding reports that.
	if store, err := p.storeID(ctx); err == nil && found.Owner != "" && found.Owner != store {
		return Finding{
			check, Warn, fmt.Sprintf("the Redis prefix %q belongs to another store (%s)", opt.Prefix, found.Owner),
			"Choose another bus.prefix, or the data directory of that store with dataDir or --data. If that store is gone, delete the key " + opt.Prefix + ":owner.",
		}
	}
	if found.Unused != "" {
		return Finding{check, Warn, found.Unused, "Look at all of them with XRANGE " + opt.Prefix + ":in:dead - +, and delete that key then."}
	}
	if found.Evicts != "" {
		return Finding{
			check, Warn, fmt.Sprintf("%s may evict entries (maxmemory-policy is %s)", found.Found, found.Evicts),
			"Set it to noeviction. Otherwise, entries of other programs can be lost before Lilac takes them.",
		}
	}
	return Finding{check, OK, found.Found, ""}
}

// refused returns the finding for a problem that prevents a start. The first sentence of err
// becomes the message, and the others become the advice.
func refused(check string, err error) Finding {
	wrong, advice, _ := strings.Cut(fault.ToWire(err).Message, ". ")
	return Finding{check, Fail, wrong, advice}
}

// adviceForRedis returns the advice for a Redis server that cannot be reached.
func adviceForRedis(err error) string {
	if _, untrusted := errors.AsType[x509.UnknownAuthorityError](err); untrusted {
		return "Name the file of the authority that signed the certificate in bus.caFile."
	}
	if _, another := errors.AsType[x509.HostnameError](err); another {
		return "Name the host in bus.url as its certificate does."
	}
	if e, invalid := errors.AsType[x509.CertificateInvalidError](err); invalid && e.Reason == x509.Expired {
		return "Give Redis a new certificate, and look at the clocks of both machines."
	}
	switch {
	case strings.Contains(err.Error(), "cannot do its work"): // it says why
		return "Look at the log of Redis."
	case strings.Contains(err.Error(), "certificate required"): // crypto/tls has no type for the alert
		return "Redis wants a certificate of its clients: set bus.certFile and bus.keyFile, or tls-auth-clients to no there."
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.EOF):
		return "Look whether that port is one of Redis, with TLS for rediss:// and without it for redis://, at the network, and whether Redis has as many clients as its maxclients allows."
	}
	return "Start Redis, or look at bus.url and the network."
}
