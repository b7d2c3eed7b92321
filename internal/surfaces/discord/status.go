package discord

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"
	"time"

	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
)

// silentAfter is how long the gateway may send nothing, neither events nor
// heartbeat acknowledgments, before the adapter is unhealthy. Discord
// acknowledges a heartbeat at least every 42 seconds (maxHeartbeat), so a check
// that runs every few seconds finds a dead connection within 90.
const silentAfter = 80 * time.Second

// status knows the bot's identity, the gateway state in memory, and the health
// of the connection. It is safe for concurrent use.
type status struct {
	mu    sync.Mutex
	state GatewayState
	// identified reports that state.Self is known.
	identified bool
	// lastSignal is when the gateway last sent anything; live, that a session was
	// started or resumed since the process began.
	lastSignal time.Time
	live       bool
	// lastError is why the last connection ended, nil while a session is live;
	// fatal, why there will be no further connection.
	lastError, fatal error
	// caughtUp reports that a session is live and all events that it replayed are
	// stored.
	caughtUp bool
	// missedSince is when the last event before the current session was stored
	// (Unix milliseconds), 0 if there was none.
	missedSince int64
}

// load reads the state of the token's account that survived a restart.
func (s *status) load(q db.Queryer, table GatewayTable, token string) error {
	sum := sha256.Sum256([]byte(token))
	account := hex.EncodeToString(sum[:8])
	state, err := table.Gateway(q)
	if err != nil {
		return fmt.Errorf("read the gateway state: %w", err)
	}
	if state.Account != account {
		state = GatewayState{Account: account}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state, s.identified = state, state.Self.ID != ""
	return nil
}

// snapshot returns the gateway state.
func (s *status) snapshot() GatewayState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// self returns the bot's user; known is false before the first connection.
func (s *status) self() (u surface.User, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.Self, s.identified
}

// selfID returns the bot's user id, "" before the first connection.
func (s *status) selfID() string {
	self, _ := s.self()
	return self.ID
}

// setIdentity applies the start of a session.
func (s *status) setIdentity(w wireReady) (heardAt int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.Self = surface.User{ID: w.User.ID, Name: w.User.name(nil), Bot: true}
	s.state.ApplicationID = w.Application.ID
	s.identified = w.User.ID != ""
	s.missedSince = s.state.HeardAt
	return s.missedSince
}

// missed returns since when events may have been missed (Unix milliseconds), 0
// before the very first session.
func (s *status) missed() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.missedSince
}

// noteStored records that an event was stored.
func (s *status) noteStored() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.HeardAt = time.Now().UnixMilli()
}

// noteHeartbeat records that the gateway sent something.
func (s *status) noteHeartbeat() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastSignal = time.Now()
}

// setLive records that a session was started or resumed.
func (s *status) setLive() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live, s.lastError = true, nil
}

// setDisconnected records why the connection ended.
func (s *status) setDisconnected(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastError, s.caughtUp = err, false
}

// setFatal records why the adapter stopped for good.
func (s *status) setFatal(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fatal = err
}

// setCaughtUp records that the replayed events are stored.
func (s *status) setCaughtUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.caughtUp = true
}

func (s *status) isCaughtUp() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.caughtUp
}

// setCommands records the hash of the registered commands.
func (s *status) setCommands(hash string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.Commands = hash
}

// spendIdentify takes one session from the budget, or returns how long to wait.
func (s *status) spendIdentify(limit IdentifyLimit) (IdentifyBudget, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	budget, wait := s.state.Budget.spend(time.Now(), limit)
	if wait == 0 {
		s.state.Budget = budget
	}
	return budget, wait
}

// health returns why the gateway delivers nothing, nil if it is healthy. It
// checks that the gateway has sent something, not that a socket is open. Before
// the first session of the process nothing is healthy: messages that were sent
// before a bot's very first session never arrive.
func (s *status) health() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch silence := time.Since(s.lastSignal); {
	case s.fatal != nil:
		return s.fatal
	case !s.live && s.lastError != nil:
		return fault.Wrap(fault.Unavailable, s.lastError, "Discord cannot be reached.")
	case !s.live:
		return fault.New(fault.Unavailable, "Discord is not connected yet.")
	case silence > silentAfter:
		return fault.Wrap(fault.Unavailable, s.lastError, "Discord has sent nothing for %s.", silence.Round(time.Second))
	}
	return nil
}
