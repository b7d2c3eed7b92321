package discordtest

// Drop is a way to end a gateway connection.
type Drop struct {
	op        int
	resumable bool
	code      int
}

// Drops without a close code from the server.
var (
	// Cut drops the connection without a close frame (1006).
	Cut = Drop{}
	// Reconnect asks the client to reconnect (op 7).
	Reconnect = Drop{op: opReconnect}
	// InvalidResumable and Invalid declare the session invalid (op 9). After Invalid, the
	// server deletes the session, so the client cannot resume it.
	InvalidResumable = Drop{op: opInvalidSession, resumable: true}
	Invalid          = Drop{op: opInvalidSession}
)

// CloseWith closes the connection with a close code such as 4000. After 4007, 4009 and
// the fatal codes, the server deletes the session.
func CloseWith(code int) Drop { return Drop{code: code} }

// DropGateway ends all connections and returns their number.
func (s Faults) DropGateway(d Drop) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.gateway.conns)
	for c := range s.gateway.conns {
		c.dropLocked(d)
	}
	s.notifyLocked()
	return n
}

// DropNext ends upcoming connections after their identify or resume. Each way applies to
// one connection.
func (s Faults) DropNext(ways ...Drop) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gateway.drops = append(s.gateway.drops, ways...)
}

// ExpireSessions deletes all gateway sessions, so that the server rejects every resume.
func (s Faults) ExpireSessions() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.gateway.sessions)
}

// Silence makes the gateway accept everything and send nothing: no Hello, no events and
// no heartbeat acknowledgements. It queues the payloads until Silence(false).
func (s Faults) Silence(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gateway.silent = on
	for c := range s.gateway.conns {
		c.beat = s.o.Now() // restart the heartbeat timeout
	}
	s.notifyLocked()
}

// HoldAcks stops acknowledging heartbeats, like a half-open connection. Events still
// arrive.
func (s Faults) HoldAcks(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gateway.holdAcks = on
}

// AskHeartbeat requests an immediate heartbeat from every client (op 1).
func (s Faults) AskHeartbeat() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.gateway.conns {
		c.sendLocked(opHeartbeat, nil)
	}
	s.notifyLocked()
}

// RefuseGateway rejects the next n connection attempts with status 503.
func (s Faults) RefuseGateway(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gateway.refuse = n
}

func (c *conn) dropLocked(d Drop) {
	ss := c.session
	switch {
	case d.code != 0:
		c.closeLocked(d.code, "dropped")
		if ss != nil && (d.code == closeInvalidSeq || d.code == closeTimedOut || d.code == closeAuthentication || d.code >= closeInvalidShard) {
			delete(c.s.gateway.sessions, ss.id)
		}
	case d.op == opInvalidSession:
		c.sendLocked(opInvalidSession, d.resumable)
		c.leaveLocked()
		if ss != nil && !d.resumable {
			delete(c.s.gateway.sessions, ss.id)
		}
	case d.op == opReconnect:
		c.sendLocked(opReconnect, nil)
		c.leaveLocked()
	default:
		c.cut()
	}
}

// leaveLocked detaches the connection from its session. Later events stay in the
// session's log for a resume.
func (c *conn) leaveLocked() {
	if c.session != nil && c.session.conn == c {
		c.session.conn = nil
	}
}
