// Package entity turns a platform's mentions into names and names into
// mentions: <@id> ↔ @name and <#id> ↔ #token, as the surface-tools
// specification asks, and resolves the forms in which a session may be named.
//
// What it promises:
//
//   - Names come from the configuration, then from what is known (the cache),
//     then from a readable form that holds the id, so that [Mapper.In] followed
//     by [Mapper.Out] gives every mention back.
//   - Case does not matter, and the configured spelling wins. An ambiguous name
//     becomes no mention: it is never a guess.
//   - Nothing inside code spans and fenced code (CommonMark) is touched.
//   - Out never makes @everyone or @here, and says which people it mentioned:
//     only they may be notified.
//
// Both directions want the whole text; a piece of one may cut a name or a
// fence in two. Everything here is pure.
package entity
