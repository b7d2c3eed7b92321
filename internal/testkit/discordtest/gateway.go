package discordtest

import (
	"compress/zlib"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

const gatewayPath = "/gateway"

// Gateway opcodes (Opcodes and Status Codes, "Gateway Opcodes").
const (
	opDispatch       = 0
	opHeartbeat      = 1
	opIdentify       = 2
	opPresence       = 3
	opVoice          = 4
	opResume         = 6
	opReconnect      = 7
	opRequestMembers = 8
	opInvalidSession = 9
	opHello          = 10
	opAck            = 11
	opSoundboard     = 31
	opChannelInfo    = 43
)

// Gateway close codes (Opcodes and Status Codes, "Gateway Close Event Codes").
const (
	closeUnknownOpcode    = 4001
	closeDecode           = 4002
	closeNotAuthenticated = 4003
	closeAuthentication   = 4004
	closeAuthenticated    = 4005
	closeInvalidSeq       = 4007
	closeRateLimited      = 4008
	closeTimedOut         = 4009
	closeInvalidShard     = 4010
	closeShardsRequired   = 4011
	closeVersion          = 4012
	closeInvalidIntents   = 4013
	closeDisallowed       = 4014
)

const (
	// maxPayload is the largest event, in bytes, that a client may send. maxSends is the
	// maximum number of events per minute (Gateway, "Sending Events", "Rate Limiting").
	maxPayload = 4096
	maxSends   = 120
	// maxMissed bounds the events that a disconnected session keeps for a resume.
	maxMissed = 20_000
)

// gateway holds the state of all connections and sessions.
type gateway struct {
	conns      map[*conn]struct{}
	sessions   map[string]*session
	identifies []Identify
	heartbeats int
	silent     bool
	holdAcks   bool
	refuse     int
	drops      []Drop // for the next connections, applied after their identify or resume
}

// Identify records an identify that a client sent.
type Identify struct {
	At      time.Time
	Intents int
	// Shard is the connection's number and the number of all; {0, 1} if the client named none.
	Shard [2]int
	// Accepted is false if the server answered with a close code or with Invalid Session
	// (op 9).
	Accepted bool
}

// session outlives its connections. It logs all events by sequence number, so that a
// client can resume.
type session struct {
	id      string
	intents int
	shard   shard
	log     []json.RawMessage // sequence numbers 1, 2, …
	conn    *conn
}

// conn is one WebSocket connection. The handler's goroutine reads it; a second goroutine,
// pump, writes control frames and the events of its session.
type conn struct {
	s  *core
	ws *websocket.Conn

	write sync.Mutex // guards writes to the socket
	zlib  *zlibStream

	// Server.mu guards the fields below.
	session *session
	sent    int // number of events of the session's log that were sent
	sends   []time.Time
	beat    time.Time
	ended   bool
	// Control frames stay queued here while the gateway is silent.
	waiting []frame
}

// frame is a payload to send, or a close code if code is not zero.
type frame struct {
	payload any
	code    int
	reason  string
}

var upgrader = websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}

func (s *core) serveGateway(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	refused := s.gateway.refuse
	if refused > 0 {
		s.gateway.refuse--
	}
	s.mu.Unlock()
	if refused > 0 {
		http.Error(w, "upstream connect error", http.StatusServiceUnavailable)
		return
	}
	compress := r.URL.Query().Get("compress")
	if compress != "" && compress != "zlib-stream" {
		http.Error(w, "the fake Discord speaks no "+compress+": switch compression off", http.StatusBadRequest)
		return
	}
	ws, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return // Upgrade has already sent an error response
	}
	c := &conn{s: s, ws: ws, beat: s.o.Now()}
	if compress != "" {
		c.zlib = newZlibStream()
	}
	s.mu.Lock()
	if s.gateway.conns == nil {
		s.gateway.conns = make(map[*conn]struct{})
	}
	s.gateway.conns[c] = struct{}{}
	if v := r.URL.Query().Get("v"); v != "10" || r.URL.Query().Get("encoding") != "json" {
		c.closeLocked(closeVersion, "Invalid API version.")
	} else {
		c.sendLocked(opHello, object{"heartbeat_interval": s.o.Heartbeat.Milliseconds(), "_trace": []string{"fake"}})
	}
	s.notifyLocked()
	s.mu.Unlock()

	var writer sync.WaitGroup
	writer.Go(c.pump)
	c.listen()
	s.mu.Lock()
	c.endLocked()
	s.mu.Unlock()
	writer.Wait()
	_ = ws.Close() // the reader has ended, so there is nothing left to lose
}

// listen reads messages until the connection ends.
func (c *conn) listen() {
	for {
		kind, data, err := c.ws.ReadMessage()
		c.s.mu.Lock()
		if err != nil {
			// A normal close ends the session (Gateway, "Initiating a Disconnect").
			if websocket.IsCloseError(err, websocket.CloseNormalClosure, websocket.CloseGoingAway) && c.session != nil {
				delete(c.s.gateway.sessions, c.session.id)
			}
			c.s.mu.Unlock()
			return
		}
		if kind == websocket.TextMessage {
			c.takeLocked(data)
		} else {
			c.closeLocked(closeDecode, "Error while decoding payload.")
		}
		c.s.notifyLocked()
		c.s.mu.Unlock()
	}
}

func (c *conn) takeLocked(data []byte) {
	var in struct {
		Op int             `json:"op"`
		D  json.RawMessage `json:"d"`
	}
	if len(data) > maxPayload || json.Unmarshal(data, &in) != nil {
		c.closeLocked(closeDecode, "Error while decoding payload.")
		return
	}
	now := c.s.o.Now()
	c.sends = slices.DeleteFunc(c.sends, func(at time.Time) bool { return now.Sub(at) >= time.Minute })
	if c.sends = append(c.sends, now); len(c.sends) > maxSends {
		c.s.violateLocked("gateway: more than %d events sent in a minute", maxSends)
		c.closeLocked(closeRateLimited, "You are being rate limited.")
		return
	}
	switch in.Op {
	case opHeartbeat:
		c.beat = now
		c.s.gateway.heartbeats++
		if !c.s.gateway.holdAcks {
			c.sendLocked(opAck, nil)
		}
	case opIdentify:
		c.identifyLocked(in.D)
	case opResume:
		c.resumeLocked(in.D)
	case opPresence, opVoice, opRequestMembers, opSoundboard, opChannelInfo:
		if c.session == nil {
			c.closeLocked(closeNotAuthenticated, "Not authenticated.")
		}
	default:
		c.closeLocked(closeUnknownOpcode, "Unknown opcode.")
	}
}

// sendLocked queues a control payload, which belongs to no session and has no sequence
// number.
func (c *conn) sendLocked(op int, d any) {
	c.waiting = append(c.waiting, frame{payload: object{"op": op, "d": d, "s": nil, "t": nil}})
}

// closeLocked closes the connection with a code after the queued frames are sent.
func (c *conn) closeLocked(code int, reason string) {
	c.waiting = append(c.waiting, frame{code: code, reason: reason})
}

// cut drops the connection without a close frame. Clients see close code 1006.
func (c *conn) cut() { _ = c.ws.NetConn().Close() }

func (c *conn) endLocked() {
	if c.ended {
		return
	}
	c.ended = true
	delete(c.s.gateway.conns, c)
	c.leaveLocked()
	c.s.notifyLocked()
}

// pump writes pending frames until the connection ends. It closes the connection when the
// client's heartbeats stop (Gateway, "Heartbeat Interval"). Discord documents neither the
// timeout nor the close code; the fake uses two intervals and 4009.
func (c *conn) pump() {
	deadline := time.NewTimer(2 * c.s.o.Heartbeat)
	defer deadline.Stop()
	for {
		c.s.mu.Lock()
		if c.ended {
			c.s.mu.Unlock()
			return
		}
		frames := c.nextLocked()
		if len(frames) > 0 {
			c.s.notifyLocked()
		}
		changed := c.s.changed
		c.s.mu.Unlock()
		if len(frames) > 0 {
			if !c.travel() || !c.writeAll(frames) {
				c.cut()
				return
			}
			continue
		}
		select {
		case <-changed:
		case <-c.s.ctx.Done():
			c.cut()
			return
		case <-deadline.C:
			c.s.mu.Lock()
			late := c.s.o.Now().Sub(c.beat) - 2*c.s.o.Heartbeat
			if late >= 0 && !c.s.gateway.silent {
				c.closeLocked(closeTimedOut, "Session timed out.")
			}
			deadline.Reset(max(-late, time.Millisecond) + c.s.o.Heartbeat/10)
			c.s.mu.Unlock()
		}
	}
}

// nextLocked removes and returns the frames that can be sent now.
func (c *conn) nextLocked() []frame {
	if c.s.gateway.silent {
		return nil
	}
	frames := c.waiting
	c.waiting = nil
	if c.session != nil && c.session.conn == c {
		for ; c.sent < len(c.session.log); c.sent++ {
			frames = append(frames, frame{payload: c.session.log[c.sent]})
		}
	}
	return frames
}

// latency is the simulated network delay of gateway payloads. The library starts its
// heartbeats concurrently with its reader and loses track of them if the connection drops
// within microseconds of Hello, which cannot happen on a real network.
const latency = time.Millisecond

// travel waits for the simulated latency. It returns false if the server stops.
func (c *conn) travel() bool {
	timer := time.NewTimer(latency)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.s.ctx.Done():
		return false
	}
}

// writeAll writes frames and reports whether the connection is still open.
func (c *conn) writeAll(frames []frame) bool {
	for _, f := range frames {
		if !c.writeFrame(f) {
			return false
		}
	}
	return true
}

// writeFrame writes one frame and reports whether the connection is still open.
func (c *conn) writeFrame(f frame) bool {
	c.write.Lock()
	defer c.write.Unlock()
	_ = c.ws.SetWriteDeadline(time.Now().Add(writeTimeout)) // an error here also fails the write below
	if f.code != 0 {
		_ = c.ws.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(f.code, f.reason))
		return false
	}
	data, err := json.Marshal(f.payload)
	if err != nil {
		panic(fmt.Sprintf("discordtest: encode a gateway payload: %v", err)) // our own payloads always encode
	}
	if c.zlib != nil {
		return c.ws.WriteMessage(websocket.BinaryMessage, c.zlib.encode(data)) == nil
	}
	return c.ws.WriteMessage(websocket.TextMessage, data) == nil
}

// writeTimeout is how long a client may leave its socket unread. Lilac stops
// reading while its event queue is full, possibly for longer than a test lasts. The timeout
// therefore only bounds the resources that dead clients hold.
const writeTimeout = 5 * time.Minute

// zlibStream implements the "zlib-stream" transport compression: one zlib context per
// connection, flushed after each payload (Gateway, "Transport Compression").
type zlibStream struct {
	out []byte
	w   *zlib.Writer
}

func newZlibStream() *zlibStream {
	z := &zlibStream{}
	z.w = zlib.NewWriter(z)
	return z
}

// Write collects the compressor's output.
func (z *zlibStream) Write(p []byte) (int, error) {
	z.out = append(z.out, p...)
	return len(p), nil
}

func (z *zlibStream) encode(data []byte) []byte {
	z.out = nil
	_, _ = z.w.Write(data) // writes to memory do not fail
	_ = z.w.Flush()
	return z.out
}

// sessionsLocked lists the live sessions, sorted by ID, so that tests are deterministic.
func (s *core) sessionsLocked() []*session {
	all := make([]*session, 0, len(s.gateway.sessions))
	for _, id := range slices.Sorted(maps.Keys(s.gateway.sessions)) {
		all = append(all, s.gateway.sessions[id])
	}
	return all
}
