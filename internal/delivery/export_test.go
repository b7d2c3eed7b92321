package delivery

import "lilac/internal/event"

// Users is how many consumers have joined a group, or are about to.
func (b *Engine) Users(topic event.Topic, name string) int {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if g := b.groups[groupName{topic, name}]; g != nil {
		return g.users
	}
	return 0
}
