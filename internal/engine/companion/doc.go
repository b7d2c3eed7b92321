// Package companion connects a Redis server to the bus. The database has the facts;
// Redis has a copy that other programs read, and a stream in which they hand in events.
// Losing Redis loses no fact, and nothing in Lilac waits for Redis.
//
// The keys below the prefix are
//
//	owner    the id of the store that uses the prefix
//	s:TOPIC  the mirror of a topic: one entry per event
//	in       entries that other programs hand in
//	in:dead  entries that could not be used, with the reason
//
// Every command uses one key, so the keys may be on different servers of a cluster.
//
// # Mirror
//
// The id of an entry is the event's position in the log: POSITION-0. The script that
// appends says after which entry, and does nothing if that is not the last one. Then
// the mirror compares the end of the stream with the log: it continues after the newest
// entry that agrees with the log (Redis lost its last entries, or a reply was lost), or
// from the beginning of the log (the key was deleted). If there are foreign entries
// behind that one, it copies them to in:dead and builds the stream again, because Redis
// refuses smaller ids from then on. Consumer groups keep their place, before what they
// have not acknowledged. A check every two seconds notices what nothing was appended to.
//
// The output of a request is a topic as well, whose key expires: an hour after the
// last append, a quarter of an hour after the end.
//
// # Hand-in
//
// One consumer group reads the stream in. An entry is published in the database under
// its event's id, and removed and acknowledged after the commit, so that a crash in
// between repeats only the acknowledgement.
//
// # Concurrency
//
// [Companion.Fed] may be called by any goroutine and never waits for I/O. [Companion.Run]
// runs two goroutines, each with its own connection: one mirrors and one takes what is
// handed in. The mirror's goroutine owns the fields of a topic below "mirror". Locks are
// leaves.
package companion
