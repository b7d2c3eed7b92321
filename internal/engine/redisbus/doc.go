// Package redisbus is the engine of the bus that stores events in Redis Streams.
//
// Redis holds the log: one stream per topic and, except for outputs, an index of
// the event ids and the metadata of the topic. The database of the process holds
// the delivery state (package delivery) and the outgoing rows. So on this engine,
// too, an acknowledgement commits with the handler's own writes, and groups keep
// their progress when Redis loses data.
//
// # Sending
//
// [db.Tx.Publish] writes outgoing rows in the caller's transaction. One forwarder
// sends them in commit order, many per batch. It keeps each row until a minute has
// passed since it was sent and every group has committed its event. [Bus.Publish]
// does the same if a group handles the topic, and waits until the rows are sent.
// Events that no group handles, mainly the agent's output, go to the forwarder's
// queue directly and stay in memory for a minute; while Redis is unavailable they
// become rows too. So publishing works while Redis is unavailable.
//
// Redis must receive batches in the order they were sent; recovery relies on it.
// At most two batches of queued events are in flight: while Redis works on one,
// the publishers of the previous one continue and the next one is already on the
// wire. Each batch names its predecessor, so a batch that arrives first is refused
// and sent again. After a timeout, batches get smaller, because the link may be slow.
//
// An output has no index in Redis. This process is its only publisher, assigns its
// positions and remembers its ids while it grows (idIndex); older ids are read
// from Redis once. So a piece of an answer costs Redis one XADD. An event keeps
// its position when it is sent again after a lost reply. The append script first
// checks whether the streams of the outputs exist as this process expects, and
// refuses the batch otherwise.
//
// # Positions
//
// A position is the id of the stream's entry, "epoch-n". The epoch counts how often
// a process claimed the Redis prefix. It is stored in the database before it is
// used, so a position is never assigned twice, whatever Redis lost. Every script
// that writes carries the epoch, so Redis refuses a process that was replaced (a
// fence).
//
// # Recovery when Redis loses data
//
// Each batch has a unique, increasing number, and the append script stores the
// newest one. If that number is behind the newest acknowledged batch, Redis lost
// its last appends (a power cut with appendfsync everysec, a failover, a restored
// snapshot); if it is missing, Redis lost everything. The forwarder then sends the
// rows of the missing batches again, each to its old position, so groups, tails
// and readers notice nothing. Reads wait for that: otherwise a lost entry would
// look like a trimmed one.
//
// Events that were handled more than a minute ago have no rows. If Redis loses
// them, the forwarder finds the gaps, and readers that continue from before a gap
// get [bus.ErrTrimmed]. This works only while the process that sent them is running.
//
// A lost output cannot be restored, because its events have no rows. The database
// records that the output existed, so its readers get [bus.ErrTrimmed] and do not
// wait forever.
//
// # Damage
//
// An entry carries a checksum of all its content. A damaged entry is not served.
// [Verify] reports it, and also index entries without an event and gaps in outputs.
//
// # Reading
//
// One process owns the database, and the prefix is claimed with the database's id,
// so every event passes through this process. After Redis acknowledges a batch,
// its events are pushed to groups and tails; those that start late or fall behind
// read the stream. There are no blocking reads, and one connection serves any
// number of tails.
//
// # Concurrency
//
// All exported methods may be called concurrently.
//
//   - One forwarder goroutine (Bus.forward; before it starts, Open) connects, sends,
//     retries and restores. It owns the fields of Bus below the comment "These
//     belong to the forwarder", and of each output all but what the id index guards.
//   - Publishers put a publishRequest into Bus.queue and wait on its done channel.
//     The forwarder finishes each request exactly once.
//   - One goroutine per in-flight batch waits for the reply and closes answered.
//   - Bus.settling is held while one batch is announced, so batches are announced
//     in order. It guards newest, which the forwarder reads during a recovery, after
//     awaitAcknowledged.
//
// Lock order: settling, then recent.mu, or settling, then the locks of package
// delivery (Engine.Feed). Bus.mu, idIndex.mu and link.mu are leaves: no other lock
// is taken and no I/O happens while one of them is held.
package redisbus
