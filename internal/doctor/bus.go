package doctor

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"

	"lilac/internal/db"
	"lilac/internal/fault"
	"lilac/internal/redisbus"
)

// bus looks at Redis where the events are there. Nothing is changed.
func (p Patient) bus(ctx context.Context) Finding {
	b := p.Config.Bus
	if !b.URL.Redis() {
		return Finding{"bus", OK, "the events are in the database", ""}
	}
	password, err := b.Password()
	if err != nil {
		return Finding{"bus", Fail, fault.ToWire(err).Message, ""}
	}
	opt := redisbus.Options{
		URL: b.URL.Reveal(), Password: password.Reveal(), CAFile: b.CAFile, Prefix: b.Prefix, AcceptLoss: b.AcceptLoss,
	}
	found, owner, err := redisbus.Look(ctx, opt)
	if fault.KindOf(err) == fault.Unavailable {
		advice := "Start Redis, or look at bus.url and the network."
		if _, untrusted := errors.AsType[x509.UnknownAuthorityError](err); untrusted {
			advice = "Name the file of the authority that signed the certificate in bus.caFile."
		}
		return Finding{"bus", Fail, err.Error(), "What is accepted meanwhile is kept in the database. " + advice}
	}
	if err != nil {
		wrong, advice, _ := strings.Cut(fault.ToWire(err).Message, ". ")
		return Finding{"bus", Fail, wrong, advice}
	}
	// Of a database that cannot be read its own finding tells.
	if store, err := db.StoreIDIn(ctx, p.Config.DataDir); err == nil && owner != "" && owner != store {
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
		return Finding{"bus", Fail, "its events could not be read to their end: " + err.Error(), ""}
	case len(bad) > 0:
		return Finding{
			"bus", Fail, fmt.Sprintf("what is damaged in Redis: %d, the first: %s", len(bad), bad[0]),
			"What is damaged is not used. Keep a copy of Redis's files and look at its disk and memory.",
		}
	}
	return Finding{"bus", OK, found + "; every entry is as it was written", ""}
}
