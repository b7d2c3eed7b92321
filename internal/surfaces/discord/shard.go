package discord

import (
	"fmt"
	"strconv"
	"sync"
	"time"

	"lilac/internal/foundation/fault"
)

// silentAfter is how long the gateway may send nothing, neither events nor
// heartbeat acknowledgments, before the adapter is unhealthy. Discord
// acknowledges a heartbeat at least every 42 seconds (maxHeartbeat), so a check
// that runs every few seconds finds a dead connection within 90.
const silentAfter = 80 * time.Second

// shard is one of the connections of a bot, with its health. Discord divides the
// servers of a bot among its connections and delivers private messages to the first
// ("Gateway", sharding). It is safe for concurrent use.
type shard struct {
	id, count int

	mu sync.Mutex
	// heardAt is the time of the last stored event (Unix milliseconds), 0 if there was
	// none; missedSince, its value when the current session began.
	heardAt, missedSince int64
	// lastSignal is the time of the last frame of the gateway; live reports that a
	// session was started or resumed since the process began.
	lastSignal time.Time
	live       bool
	// lastError is why the last connection ended, nil while a session is live.
	lastError error
	// isCaughtUp reports that a session is live and all events that it replayed are
	// stored.
	isCaughtUp bool
}

// has reports whether the events of a server arrive here; an empty guildID stands
// for private conversations.
func (s *shard) has(guildID string) bool {
	id, err := strconv.ParseUint(guildID, 10, 64)
	if err != nil {
		return s.id == 0
	}
	return (id>>22)%uint64(s.count) == uint64(s.id)
}

// begin applies the start of a session and returns since when events may have been
// missed, as missed does.
func (s *shard) begin() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.missedSince = s.heardAt
	return s.missedSince
}

// missed returns since when events may have been missed (Unix milliseconds), 0
// before the very first session.
func (s *shard) missed() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.missedSince
}

// noteStored records that an event was stored.
func (s *shard) noteStored() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heardAt = time.Now().UnixMilli()
}

// noteSignal records that the gateway sent something.
func (s *shard) noteSignal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastSignal = time.Now()
}

// setLive records that a session was started or resumed.
func (s *shard) setLive() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live, s.lastError = true, nil
}

// setDisconnected records why the connection ended.
func (s *shard) setDisconnected(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastError, s.isCaughtUp = err, false
}

// setCaughtUp records that the replayed events are stored.
func (s *shard) setCaughtUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.isCaughtUp = true
}

func (s *shard) caughtUp() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isCaughtUp
}

// health returns why the connection delivers nothing, nil if it is healthy. It
// checks that the gateway has sent something, not that a socket is open. Before
// the first session of the process nothing is healthy: messages that were sent
// before a bot's very first session never arrive.
func (s *shard) health() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := ""
	if s.count > 1 {
		of = fmt.Sprintf("Connection %d of %d: ", s.id+1, s.count)
	}
	switch silence := time.Since(s.lastSignal); {
	case !s.live && s.lastError != nil:
		return fault.Wrap(fault.Unavailable, s.lastError, "%sDiscord cannot be reached.", of)
	case !s.live:
		return fault.New(fault.Unavailable, "%sDiscord is not connected yet.", of)
	case silence > silentAfter:
		return fault.Wrap(fault.Unavailable, s.lastError, "%sDiscord has sent nothing for %s.", of, silence.Round(time.Second))
	}
	return nil
}
