package doctor

import (
	"context"

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
	found, err := redisbus.Look(ctx, redisbus.Options{
		URL: b.URL.Reveal(), Password: password.Reveal(), CAFile: b.CAFile, Prefix: b.Prefix, AcceptLoss: b.AcceptLoss,
	})
	if fault.KindOf(err) == fault.Unavailable {
		return Finding{"bus", Fail, fault.ToWire(err).Message, "What is accepted meanwhile is kept in the database. Start Redis, or look at bus.url and the network."}
	}
	if err != nil {
		return Finding{"bus", Fail, fault.ToWire(err).Message, ""}
	}
	return Finding{"bus", OK, found, ""}
}
