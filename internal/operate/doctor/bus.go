package doctor

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"

	"lilac/internal/engine/redisbus"
	"lilac/internal/foundation/fault"
)

// bus checks Redis, if the events are stored there. It changes nothing.
func (p Patient) bus(ctx context.Context) Finding {
	b := p.Config.Bus
	if !b.URL.Redis() {
		return Finding{"bus", OK, "events are in the database", ""}
	}
	password, err := b.Password()
	ofSentinels, err2 := b.SentinelPassword()
	if err := errors.Join(err, err2); err != nil {
		return Finding{"bus", Fail, fault.ToWire(err).Message, ""}
	}
	opt := redisbus.Options{
		URL: b.URL.Reveal(), Password: password.Reveal(), SentinelPassword: ofSentinels.Reveal(), CAFile: b.CAFile, Prefix: b.Prefix, AcceptLoss: b.AcceptLoss,
	}
	found, owner, err := redisbus.Inspect(ctx, opt)
	if fault.KindOf(err) == fault.Unavailable {
		wrong, advice, says := strings.Cut(fault.ToWire(err).Message, ". ")
		if !says {
			wrong, advice = err.Error(), adviceForRedis(err)
		}
		return Finding{"bus", Fail, wrong, "Until then, Lilac keeps accepted events in the database. " + advice}
	}
	if err != nil {
		return refused("bus", err)
	}
	// If the database cannot be read, its own finding reports that.
	if store, err := p.storeID(ctx); err == nil && owner != "" && owner != store {
		return Finding{
			"bus", Fail, fmt.Sprintf("the Redis prefix %q belongs to another store (%s)", b.Prefix, owner),
			"Choose another bus.prefix, or the data directory of that store with dataDir or --data.",
		}
	}
	if !p.Deep {
		return Finding{"bus", OK, found, ""}
	}
	switch bad, err := redisbus.Verify(ctx, opt); {
	case err != nil:
		return Finding{"bus", Fail, "cannot read all events: " + err.Error(), ""}
	case len(bad) > 0:
		return Finding{
			"bus", Fail, fmt.Sprintf("what is damaged in Redis: %d, the first: %s", len(bad), bad[0]),
			"What is damaged is not used. Keep a copy of Redis's files and look at its disk and memory.",
		}
	}
	return Finding{"bus", OK, found + "; all entries are intact", ""}
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
		return "Redis wants a certificate of its clients, and Lilac has none: set tls-auth-clients to no there."
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.EOF):
		return "Look whether that port is one of Redis, with TLS for rediss:// and without it for redis://, at the network, and whether Redis has as many clients as its maxclients allows."
	}
	return "Start Redis, or look at bus.url and the network."
}
