// Package discord connects Lilac to Discord: it stores what people write there
// and sends what the agent answers. It follows Discord's developer documentation
// (API version 10); comments name the page and section of a rule.
//
// # Guarantees
//
//   - Every gateway event is stored before the next one: inbox, cache, gateway
//     position, and published event in one transaction. When the queue is full,
//     the reader waits; nothing is dropped. After a crash the gateway session
//     resumes at the stored position. If Discord has ended the session, the
//     missed messages are read from the channels' histories.
//   - Messages are accepted from, and sent to, only the channels and people that
//     the configuration allows.
//   - [writer].write is the only function that sends messages. It notifies only
//     the people whom the caller names, never roles or everyone.
//   - Rate limits are kept in advance instead of being discovered by errors.
//
// # Parts
//
// [Adapter] implements [surface.Adapter] and owns the parts:
//
//	connections   keeps as many as the servers need           connections.go, shard.go
//	gateway       keeps one connection; reads events          gateway.go, connection.go
//	pipeline      stores events in order                      pipeline.go
//	recorder      turns messages into rows and events         recorder.go, incoming.go, threads.go, relate.go
//	guildSync     keeps the cache of servers and channels     guilds.go, guild_refresh.go
//	backfiller    reads the messages that were missed         backfill.go, archived.go, reconcile.go
//	interactions  answers commands and buttons                interactions.go
//	registrar     registers the commands                      commands.go
//	directory     knows channels and what is allowed          channels.go, boosts.go
//	history       reads messages over REST                    history.go
//	writer        sends messages over REST                    writer.go, refusals.go
//	attachments   downloads files                             attachments.go
//	status        identity, gateway state, and health         status.go
//	client        REST calls, with the limiter                client.go, ratelimit.go, routes.go
//
// # Concurrency
//
// All methods of [Adapter] are safe for concurrent use. [Adapter.Run] owns every
// goroutine and waits for all of them:
//
//   - gateway, for each connection: one goroutine reads it, one sends heartbeats.
//   - pipeline, for each connection: up to maxPreparing goroutines prepare messages
//     (REST calls, downloads) while one goroutine stores the results in the order
//     of the gateway. The queue between them holds maxQueued events. If a reader
//     cannot continue, the events in the queue are stored before run ends.
//   - guildSync, backfiller, registrar, token probe: one goroutine each, woken by
//     a [signal].
//   - interactions: interactionWorkers goroutines and a queue of maxInteractions,
//     because Discord wants an acknowledgment within three seconds.
//
// Locks: status.mu, shard.mu, channelCache.mu, roleCache.mu, recorder.mu, starters.mu, refusals.mu, nonces.mu,
// guildSync.mu, limiter.mu, and connection.writing are leaves: no code takes another lock
// while it holds one of them. A bucket's turn is held during a REST call and
// comes before limiter.mu. No lock is held during a transaction or a REST call.
package discord
