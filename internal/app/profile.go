package app

import (
	"lilac/internal/core/router"
	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
)

// platformProfile implements [router.Profile] and [router.ReplyClaimer] for one
// platform, with the configuration that is in force.
type platformProfile struct {
	p       *program
	adapter surface.Adapter
}

func (o platformProfile) SelfID() string {
	self, _ := o.adapter.Self()
	return self.ID
}

func (o platformProfile) Names(q db.Queryer) func(string) string {
	return o.p.mapper(q, o.adapter.Platform()).In
}

func (o platformProfile) Mode(s surface.Session) router.Mode {
	return modeOf(o.p.now.Load().config.Surface.Discord, s)
}

func (o platformProfile) Images() bool { return o.p.now.Load().choice.Images }

func (o platformProfile) ClaimReply(tx *db.Tx, m surface.Message) (bool, error) {
	return o.p.workflows.ClaimReply(tx, m)
}
