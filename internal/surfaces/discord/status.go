package discord

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"sync"
	"time"

	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
)

// status knows the bot's identity, the gateway state in memory, and the health
// of the connections. It is safe for concurrent use.
type status struct {
	mu    sync.Mutex
	state GatewayState
	// identified reports that state.Self is known.
	identified bool
	// shards are the connections, none before the adapter runs.
	shards []*shard
	// fatal is why there will be no further connection.
	fatal error
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

// saved returns the stored gateway state: a new one if the stored one is that of
// another account.
func (s *status) saved(q db.Queryer, table GatewayTable) (GatewayState, error) {
	state, err := table.Gateway(q)
	if current := s.snapshot(); err == nil && state.Account != current.Account {
		state = GatewayState{Account: current.Account, Budget: current.Budget}
	}
	return state, err
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
func (s *status) setIdentity(w wireReady) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.Self = surface.User{ID: w.User.ID, Name: w.User.name(nil), Bot: true}
	s.state.ApplicationID = w.Application.ID
	s.identified = w.User.ID != ""
}

// setShards replaces the connections.
func (s *status) setShards(all []*shard) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shards = all
}

// setFatal records why the adapter stopped for good.
func (s *status) setFatal(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fatal = err
}

// caughtUp reports that all connections have a session, and that all events that
// the sessions replayed are stored.
func (s *status) caughtUp() bool {
	shards, _ := s.connections()
	return len(shards) > 0 && !slices.ContainsFunc(shards, func(c *shard) bool { return !c.caughtUp() })
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

// connections returns the connections, and why there will be none.
func (s *status) connections() (all []*shard, fatal error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shards, s.fatal
}

// health returns why events may be missing, nil if all connections are healthy.
func (s *status) health() error {
	shards, fatal := s.connections()
	switch {
	case fatal != nil:
		return fatal
	case len(shards) == 0:
		return fault.New(fault.Unavailable, "Discord is not connected yet.")
	}
	for _, c := range shards {
		if err := c.health(); err != nil {
			return err
		}
	}
	return nil
}
