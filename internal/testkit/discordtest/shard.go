package discordtest

import (
	"maps"
	"slices"
)

// shard is the number of a connection and the number of all connections of the bot
// (Gateway, "Sharding").
type shard [2]int

// has reports whether a connection receives the events of a guild. Those without a guild,
// private messages above all, go to the first connection.
func (d shard) has(guildID string) bool {
	id, ok := snowflake(guildID)
	if !ok {
		return d[0] == 0
	}
	return int((id>>22)%int64(d[1])) == d[0]
}

// guildsOf lists the guilds of a connection, of which the bot is a member.
func (w *world) guildsOf(d shard) []string {
	var ids []string
	for _, id := range slices.SortedFunc(maps.Keys(w.guilds), compareIDs) {
		if w.guilds[id].members[w.bot.ID] != nil && d.has(id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// recommendedShards is the smallest number of connections with at most so many guilds each,
// at most 64: guilds that were created in one millisecond cannot be divided.
func (w *world) recommendedShards(most int) int {
	for n := 1; ; n++ {
		fits := true
		for i := range n {
			fits = fits && len(w.guildsOf(shard{i, n})) <= most
		}
		if fits || n == 64 {
			return n
		}
	}
}

// guildOf returns the guild of an event, "" if it has none.
func guildOf(kind string, c *channel, data object) string {
	if c != nil {
		return c.guild
	}
	field := "guild_id"
	if kind == "GUILD_CREATE" || kind == "GUILD_DELETE" {
		field = "id"
	}
	id, _ := data[field].(string)
	return id
}
