package discordtest

// Drop is a way in which a gateway connection ends.
type Drop struct {
	op        int
	resumable bool
	code      int
}

// The ways that are not close codes.
var (
	// Cut ends the connection without a word (1006).
	Cut = Drop{}
	// Reconnect asks the client to come back (op 7).
	Reconnect = Drop{op: opReconnect}
	// InvalidResumable and Invalid say that the session is invalid (op 9); the
	// second one is forgotten.
	InvalidResumable = Drop{op: opInvalidSession, resumable: true}
	Invalid          = Drop{op: opInvalidSession}
)

// CloseWith closes with a code, such as 4000. After 4007, 4009 and the fatal
// ones the session is forgotten.
func CloseWith(code int) Drop { return Drop{code: code} }

// DropGateway ends every connection that there is. It returns how many.
func (s *Server) DropGateway(d Drop) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.gateway.conns)
	for c := range s.gateway.conns {
		c.dropLocked(d)
	}
	s.notifyLocked()
	return n
}

// DropNext ends the next connections in these ways, one each, when they
// identify or resume.
func (s *Server) DropNext(ways ...Drop) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gateway.drops = append(s.gateway.drops, ways...)
}

// ExpireSessions forgets every gateway session, so that a resume is refused.
func (s *Server) ExpireSessions() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.gateway.sessions)
}

// Silence makes the gateway accept everything and say nothing: no hello, no
// events, no answers to heartbeats. What it would have said waits.
func (s *Server) Silence(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gateway.silent = on
	for c := range s.gateway.conns {
		c.beat = s.o.Now() // the count of missing heartbeats starts anew
	}
	s.notifyLocked()
}

// HoldAcks leaves heartbeats unanswered, as a half-open connection does;
// events still come.
func (s *Server) HoldAcks(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gateway.holdAcks = on
}

// AskHeartbeat asks for a heartbeat at once (op 1).
func (s *Server) AskHeartbeat() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.gateway.conns {
		c.sendLocked(opHeartbeat, nil)
	}
	s.notifyLocked()
}

// RefuseGateway answers the next n attempts to connect with 503.
func (s *Server) RefuseGateway(n int) {
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

// leaveLocked lets what happens from now on wait for a resume.
func (c *conn) leaveLocked() {
	if c.session != nil && c.session.conn == c {
		c.session.conn = nil
	}
}
