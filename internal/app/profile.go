package app

import (
	"context"

	"lilac/internal/core/interaction"
	"lilac/internal/core/relay"
	"lilac/internal/core/router"
	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/grant"
	"lilac/internal/store"
	"lilac/internal/surfaces/discord"
)

// platformProfile implements [router.Profile] and [router.ReplyClaimer] for one
// platform, with the configuration that is in force.
type platformProfile struct {
	names
	adapter surface.Adapter
}

func (o platformProfile) SelfID() string {
	self, _ := o.adapter.Self()
	return self.ID
}

func (o platformProfile) Names(q db.Queryer) func(string) string {
	return o.mapper(q, o.adapter.Platform()).In
}

func (o platformProfile) Mode(s surface.Session) router.Mode {
	return o.listenModes().Of(s)
}

// MayTalk reports whether a person may talk to the agent.
func (o platformProfile) MayTalk(u surface.User) bool {
	return o.now.Load().config.Surface.Discord.Access.Talk.People().Includes(u)
}

// Grant returns what requests with a person's messages may use.
func (o platformProfile) Grant(u surface.User) grant.Grant {
	by := grant.By(personOf(u))
	if o.now.Load().config.Surface.Discord.Access.Act.People().Includes(u) {
		return by
	}
	return by.And(grant.Of(grant.Tools{From: "surface.discord.access.act", Allow: grant.Reading}))
}

// personOf describes a user of a platform to the policy.
func personOf(u surface.User) grant.Person {
	return grant.Person{ID: u.ID, Roles: u.Roles, RolesKnown: u.Roles != nil}
}

// Programs reports whether a session, or the channel of a thread, listens to bots.
func (o platformProfile) Programs(s surface.Session) bool {
	channels := o.now.Load().config.Surface.Discord.Channels
	return channels[s.ChannelID].Bots || s.ParentChannelID != "" && channels[s.ParentChannelID].Bots
}

func (o platformProfile) Shows(mediaType string) bool { return models{o.base}.shows(mediaType) }

func (o platformProfile) ClaimReply(tx *db.Tx, m surface.Message) (bool, error) {
	return o.workflows.ClaimReply(tx, m)
}

// relayRequests implements [relay.Requests].
type relayRequests struct {
	*base
	interactions *interaction.Service
}

func (r relayRequests) Mention(q db.Queryer, requestID string) (string, error) {
	return r.workflows.Mention(q, requestID)
}

func (r relayRequests) Askers(q db.Queryer, requestID string) (people []relay.Asker, err error) {
	asked, err := r.interactions.Asked(q, requestID)
	if err != nil {
		return nil, err
	}
	for _, a := range asked {
		if u, err := (store.SurfaceCache{}).User(q, discord.Platform, a.UserID); err == nil && u.Bot {
			continue // a program needs no notification, and could answer it
		}
		people = append(people, relay.Asker{UserID: a.UserID, AskedAt: a.At})
	}
	return people, nil
}

func (r relayRequests) Paused(q db.Queryer, requestID string) (bool, error) {
	return r.interactions.Paused(q, requestID)
}

func (r relayRequests) FinalOutput(q db.Queryer, sessionID, requestID string) ([]event.Payload, error) {
	return r.runner.FinalOutput(q, sessionID, requestID)
}

// relayFormat implements [relay.Formatter].
type relayFormat struct {
	names
	platform string
}

func (f relayFormat) Rewrite(ctx context.Context, text string) (string, []string) {
	return f.rewrite(ctx, f.platform, text)
}

func (f relayFormat) Scrub(text string) string  { return f.Secrets.Redact(text) }
func (f relayFormat) BlobSize(ref string) int64 { return f.blobs.Size(ref) }
