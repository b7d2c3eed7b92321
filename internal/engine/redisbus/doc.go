// Package redisbus is the bus whose events are in Redis Streams.
//
// Redis holds the log: a stream for each topic and, but for outputs, an index of the ids
// that are in it and what is known of the topic. The database of the process holds what
// happened to the events: who has handled what (package delivery), and the
// outgoing rows. So an acknowledgement commits with the handler's own writes on
// this engine too, and a Redis that forgets cannot make a group forget.
//
// # Sending
//
// [db.Tx.Publish] writes outgoing rows into the caller's transaction. One
// forwarder sends them in the order of the commits, a pipeline of many at a
// time, and keeps each row until a minute has passed since it was sent and every
// group has committed its event. [Bus.Publish] does the same when a group
// handles the topic, and waits until the rows are sent. Events that no group
// handles, the output of the agent above all, are handed to the forwarder
// directly and are kept in memory for a minute; when Redis is away they become
// rows too. Whatever is published while Redis is away is accepted.
//
// What was sent first is first in Redis, and a restoration relies on it. Of what was
// handed over, two batches are on their way at a time: while Redis works on one, those
// who published the one before are told and prepare their next events, and the next one
// is there when Redis is done. It says which batch Redis must have, so it is refused
// should it come first, and sent again. When an
// answer does not come in time, the next batches are smaller: the way may be slow.
//
// An output has no index. This process is the only one that publishes to it, gives
// out its places and remembers which ids it has for as long as it grows (the ledger); what
// was there before is read once. So a piece of an answer costs Redis an XADD and nothing
// else. An event keeps the place that it was sent to: sent again after an answer that
// got lost, it is there or goes there. The script looks first whether the outputs of a
// batch have streams as this process believes, and refuses the batch if not.
//
// # Positions
//
// A position is the id of the stream's entry, "epoch-n". The epoch counts the
// times that a process took the Redis prefix; it is stored in the database
// before it is used, so no position is given out twice, whatever Redis forgot.
// Every script that writes carries the epoch: a process that was replaced is
// refused (a fence).
//
// # What Redis forgot
//
// Every batch that is sent has a number, which no other one has or had, and Redis
// stores the newest one in the same script. When that number is behind what was acknowledged, Redis lost its
// last appends (a power cut with appendfsync everysec, a fail-over, a restored
// snapshot), and when it is gone, everything. Then the rows of the batches that
// are missing are sent again, each to the position that it had. Groups, tails
// and readers notice nothing. Until that is done nothing is read: an entry that
// is missing from a log that forgot does not pass for one that was trimmed.
//
// What was handled more than a minute ago has no row any more. When Redis lost such
// events too, the places that are missing are found, and who reads on from before
// them is told ([bus.ErrTrimmed]), as long as the process lives that sent them.
//
// An output that is gone cannot be given back: its events have no rows. That
// there was one is remembered in the database, so that who asks for it is told
// ([bus.ErrTrimmed]) instead of waiting.
//
// # Damage
//
// An entry carries a checksum over everything in it. One that is not as it was
// written is not served; [Verify] finds it, and also what the index of ids has
// and the stream does not, and the places that an output lacks.
//
// # Reading
//
// One process owns the database, and the prefix is claimed with the database's
// id, so every event passes this process: groups and tails are pushed to when
// Redis has acknowledged, and read the stream when they come late or fell
// behind. There are no blocking reads, and one connection serves any number of
// tails.
package redisbus
