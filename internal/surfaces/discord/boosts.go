package discord

import "sync"

// boostedTier is the level of boosts from which a server accepts larger files: 50 MiB, and more on
// the next level.
const boostedTier = 2

// boosts remembers which servers accept larger files. It is safe for concurrent use.
type boosts struct {
	mu    sync.Mutex
	known map[string]bool
}

func newBoosts() *boosts { return &boosts{known: map[string]bool{}} }

func (b *boosts) get(guildID string) (boosted, known bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	boosted, known = b.known[guildID]
	return boosted, known
}

func (b *boosts) put(guildID string, tier int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.known[guildID] = tier >= boostedTier
}

// maxFileBytes returns the size of the largest file that a channel accepts.
func (d *directory) maxFileBytes(channelID string) int64 {
	i, _ := d.cache.get(channelID)
	if boosted, _ := d.boosts.get(i.guildID); boosted {
		return maxMessageBytes
	}
	return maxFileBytes
}

// MaxFileBytes implements [surface.Adapter]. A resumed session does not describe the servers, so
// one that is not known is read once.
func (a *Adapter) MaxFileBytes(channelID string) int64 {
	if i, _ := a.directory.cache.get(channelID); i.guildID != "" {
		if _, known := a.directory.boosts.get(i.guildID); !known {
			a.directory.boosts.put(i.guildID, 0)
			a.guilds.scheduleGuildRefresh(i.guildID)
		}
	}
	return a.directory.maxFileBytes(channelID)
}
