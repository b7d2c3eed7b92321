package discord

// boostedTier is the level of boosts from which a server accepts larger files: 50 MiB, and more on
// the next level.
const boostedTier = 2

// maxFileBytes returns the size of the largest file that a channel accepts. If the boosts of its
// server are not known, it also returns that server.
func (d *directory) maxFileBytes(channelID string) (most int64, unknown string) {
	i, _ := d.cache.get(channelID)
	tier, known := d.tiers.Load(i.guildID)
	switch {
	case !known:
		return maxFileBytes, i.guildID
	case tier.(int) >= boostedTier:
		return maxMessageBytes, ""
	}
	return maxFileBytes, ""
}

// MaxFileBytes implements [surface.Adapter]. A resumed session does not describe the servers, so
// one that is not known is read once.
func (a *Adapter) MaxFileBytes(channelID string) int64 {
	most, unknown := a.directory.maxFileBytes(channelID)
	if unknown != "" {
		a.directory.tiers.Store(unknown, 0)
		a.guilds.scheduleGuildRefresh(unknown)
	}
	return most
}
