package discordtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"
)

// Gateway intents (Gateway, "List of Intents").
const (
	intentGuilds          = 1 << 0
	intentMembers         = 1 << 1
	intentPresences       = 1 << 8
	intentGuildMessages   = 1 << 9
	intentGuildReactions  = 1 << 10
	intentGuildTyping     = 1 << 11
	intentDirectMessages  = 1 << 12
	intentDirectReactions = 1 << 13
	intentDirectTyping    = 1 << 14
	intentMessageContent  = 1 << 15
	// allIntents is the set of all defined bits: 0–16, 20, 21, 24 and 25.
	allIntents = 1<<17 - 1 | 1<<20 | 1<<21 | 1<<24 | 1<<25
)

func (c *conn) identifyLocked(d json.RawMessage) {
	s := c.s
	var in struct {
		Token      string          `json:"token"`
		Intents    *int            `json:"intents"`
		Properties json.RawMessage `json:"properties"`
		Compress   bool            `json:"compress"`
		Shard      *[2]int         `json:"shard"`
	}
	if json.Unmarshal(d, &in) != nil || in.Properties == nil {
		c.closeLocked(closeDecode, "Error while decoding payload.")
		return
	}
	if c.session != nil {
		c.closeLocked(closeAuthenticated, "Already authenticated.")
		return
	}
	now := s.o.Now()
	id := Identify{At: now, Shard: [2]int{0, 1}}
	if in.Shard != nil {
		id.Shard = *in.Shard
	}
	if in.Intents != nil {
		id.Intents = *in.Intents
	}
	before := s.gateway.identifies
	// Some libraries send the token as in a header. Discord accepts that, too.
	code, reason := c.refuseIdentify(strings.TrimPrefix(in.Token, "Bot "), in.Intents, id.Shard, now)
	tooSoon := len(before) > 0 && s.o.IdentifyEvery > 0 && now.Sub(before[len(before)-1].At) < s.o.IdentifyEvery
	id.Accepted = code == 0 && !tooSoon
	if len(before) < maxRecorded {
		s.gateway.identifies = append(before, id)
	}
	switch {
	case code != 0:
		c.closeLocked(code, reason)
		return
	case tooSoon:
		c.sendLocked(opInvalidSession, false)
		return
	}
	if c.dropNextLocked() {
		return
	}
	ss := &session{id: fmt.Sprintf("session-%s", s.mintLocked()), intents: id.Intents, shard: shard(id.Shard), conn: c}
	s.gateway.sessions[ss.id] = ss
	c.session = ss
	guilds := []object{}
	for _, g := range s.world.guildsOf(ss.shard) {
		guilds = append(guilds, object{"id": g, "unavailable": true})
	}
	ready := object{
		"v": 10, "user": s.world.bot.wire(), "guilds": guilds, "session_id": ss.id, "resume_gateway_url": s.o.ResumeURL,
		"shard": id.Shard, "application": object{"id": s.world.applicationID, "flags": s.applicationFlags()}, "private_channels": []object{},
	}
	maps.Copy(ready, s.o.ReadyFields)
	ss.append("READY", ready)
	if ss.intents&intentGuilds != 0 {
		for _, g := range guilds {
			ss.append("GUILD_CREATE", s.world.wireCreate(s.world.guilds[g["id"].(string)], ss.intents))
		}
	}
}

// refuseIdentify returns the close code with which Discord rejects an identify, or 0.
func (c *conn) refuseIdentify(token string, intents *int, on shard, now time.Time) (int, string) {
	s := c.s
	today := 0
	for _, id := range s.gateway.identifies {
		if now.Sub(id.At) < 24*time.Hour {
			today++
		}
	}
	switch {
	case token != s.o.Token:
		return closeAuthentication, "Authentication failed."
	case today >= s.o.IdentifiesPerDay:
		s.violateLocked("gateway: more than %d identifies in a day: Discord resets the token", s.o.IdentifiesPerDay)
		return closeAuthentication, "Authentication failed."
	case intents == nil || *intents < 0 || *intents&^allIntents != 0:
		return closeInvalidIntents, "Invalid intent(s)."
	case s.o.WithoutMessageContent && *intents&intentMessageContent != 0,
		s.o.WithoutMembers && *intents&intentMembers != 0,
		*intents&intentPresences != 0:
		return closeDisallowed, "Disallowed intent(s)."
	case on[1] < 1 || on[0] < 0 || on[0] >= on[1]:
		return closeInvalidShard, "Invalid shard."
	case len(s.world.guildsOf(on)) > s.o.GuildsPerShard:
		return closeShardsRequired, "Sharding required."
	}
	return 0, ""
}

// resumeLocked replays the events that the client missed (Gateway, "Resuming").
func (c *conn) resumeLocked(d json.RawMessage) {
	s := c.s
	var in struct {
		Token   string `json:"token"`
		Session string `json:"session_id"`
		Seq     int    `json:"seq"`
	}
	if json.Unmarshal(d, &in) != nil {
		c.closeLocked(closeDecode, "Error while decoding payload.")
		return
	}
	if c.session != nil {
		c.closeLocked(closeAuthenticated, "Already authenticated.")
		return
	}
	ss := s.gateway.sessions[in.Session]
	in.Token = strings.TrimPrefix(in.Token, "Bot ")
	known := in.Token == s.o.Token && ss != nil && in.Seq >= 0 && in.Seq <= len(ss.log)
	switch {
	case in.Token != s.o.Token:
		c.closeLocked(closeAuthentication, "Authentication failed.")
	case ss == nil:
		c.sendLocked(opInvalidSession, false)
	case !known:
		c.closeLocked(closeInvalidSeq, "Invalid seq.")
	case c.dropNextLocked():
	default:
		if old := ss.conn; old != nil {
			old.cut()
		}
		ss.conn, c.session, c.sent = c, ss, in.Seq
		ss.append("RESUMED", object{"_trace": []string{"fake"}})
	}
}

// dropNextLocked applies the next drop that [Faults.DropNext] planned, if any.
func (c *conn) dropNextLocked() bool {
	if len(c.s.gateway.drops) == 0 {
		return false
	}
	d := c.s.gateway.drops[0]
	c.s.gateway.drops = c.s.gateway.drops[1:]
	c.dropLocked(d)
	return true
}

// append appends an event to the session's log.
func (ss *session) append(kind string, d object) { ss.appendRaw(kind, d) }

func (ss *session) appendRaw(kind string, d any) {
	data, err := json.Marshal(object{"op": opDispatch, "t": kind, "s": len(ss.log) + 1, "d": d})
	if err != nil {
		panic(fmt.Sprintf("discordtest: encode %s: %v", kind, err)) // our own events always encode
	}
	ss.log = append(ss.log, data)
}

// dispatchLocked sends an event to every session that declared the required intent:
// inGuild for events in guilds, inPrivate for events in direct messages.
func (s *core) dispatchLocked(kind string, c *channel, inGuild, inPrivate int, d func(ss *session) object) {
	intent := inGuild
	if c != nil && c.kind == typeDM {
		intent = inPrivate
	}
	for _, ss := range s.sessionsLocked() {
		if ss.intents&intent == 0 && intent != 0 {
			continue
		}
		// Discord sends no events for channels that the bot cannot see.
		if c != nil && c.kind != typeDM && s.world.permissions(c, s.world.bot.ID)&ViewChannel == 0 {
			continue
		}
		if len(ss.log) >= maxMissed && ss.conn == nil {
			delete(s.gateway.sessions, ss.id) // no client has resumed it in time
			continue
		}
		data := d(ss)
		if !ss.shard.has(guildOf(kind, c, data)) {
			continue
		}
		ss.append(kind, data)
	}
	s.notifyLocked()
}

// applicationFlags returns the application flags for the intents that the developer
// portal grants (Application, "Application Flags": GATEWAY_…_LIMITED).
func (s *core) applicationFlags() int {
	flags := 0
	if !s.o.WithoutMembers {
		flags |= 1 << 15
	}
	if !s.o.WithoutMessageContent {
		flags |= 1 << 19
	}
	return flags
}
