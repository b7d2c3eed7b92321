// Package entity converts between a platform's mentions and names, <@id> ↔ @name
// and <#id> ↔ #token, as the surface-tools specification requires. It also resolves
// the names of sessions.
//
// It promises:
//
//   - Names come from the configuration, then from the cache, and otherwise are a
//     readable form that contains the id, so that [Mapper.In] followed by
//     [Mapper.Out] restores every mention.
//   - Case does not matter, and the configured spelling wins. An ambiguous name
//     never becomes a mention.
//   - Code spans and fenced code blocks (CommonMark) stay as they are.
//   - Out never creates @everyone or @here, and returns the users that it mentions:
//     only they may be notified.
//
// Both directions need the whole text, because a part may end inside a name or a
// fence. A [Mapper] is pure if its [Known] is, and [Directory] reads the cache; both
// are safe for concurrent use. The router, relays, callables, and rules use them.
package entity
