package discord

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"

	"lilac/internal/foundation/delay"
)

// connection is one connection to the gateway. One goroutine reads, one sends
// heartbeats; both end with run.
type connection struct {
	gateway *gateway
	conn    *websocket.Conn
	// at is owned by the reader.
	at *position
	// identified is called when a new session was asked for.
	identified func()
	// prepare uses a context that outlives the connection, because an event that
	// is being prepared is not received again.
	prepare func(*dispatch)

	// writing is held during a write.
	writing sync.Mutex
	// seq is the last received position, for heartbeats.
	seq atomic.Int64
	// unacknowledged is set from a heartbeat to its acknowledgment; queueing,
	// while the reader waits for the queue and cannot read acknowledgments.
	unacknowledged, queueing atomic.Bool
	// zombie reports that a heartbeat was not acknowledged.
	zombie atomic.Bool
	// liveSince is when the session began or resumed on this connection.
	liveSince time.Time
}

var errZombie = errors.New("a heartbeat was not acknowledged")

// run reads until the connection ends.
func (c *connection) run(ctx context.Context) disconnect {
	ctx, cancel := context.WithCancel(ctx)
	var helpers sync.WaitGroup
	helpers.Go(func() { // unblocks the reader when ctx ends
		<-ctx.Done()
		c.close()
	})
	defer helpers.Wait()
	defer cancel()

	end, err := c.handshake(ctx, &helpers)
	for err == nil && !end.reconnect && !end.sessionInvalid {
		var f frame
		if f, err = c.read(); err == nil {
			end, err = c.handle(ctx, f)
		}
	}
	if c.zombie.Load() {
		err = errZombie
	}
	end.code, end.err = closeCode(err), err
	if !c.liveSince.IsZero() {
		end.uptime = time.Since(c.liveSince)
	}
	return end
}

// close ends the connection and keeps the session.
func (c *connection) close() {
	_ = c.conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(closeKeepSession, ""), time.Now().Add(time.Second)) // the peer may be gone
	_ = c.conn.Close()
}

// handshake waits for hello, starts the heartbeats, and begins or resumes a
// session.
func (c *connection) handshake(ctx context.Context, helpers *sync.WaitGroup) (disconnect, error) {
	_ = c.conn.SetReadDeadline(time.Now().Add(helloTimeout)) // the read reports an error
	f, err := c.read()
	if err != nil {
		return disconnect{}, fmt.Errorf("wait for hello: %w", err)
	}
	_ = c.conn.SetReadDeadline(time.Time{})
	var hello struct {
		Interval int64 `json:"heartbeat_interval"`
	}
	if f.Op != opHello || json.Unmarshal(f.Data, &hello) != nil || hello.Interval <= 0 {
		return disconnect{}, fmt.Errorf("the gateway sent opcode %d instead of hello", f.Op)
	}
	c.seq.Store(c.at.seq)
	interval := min(time.Duration(hello.Interval)*time.Millisecond, maxHeartbeat)
	helpers.Go(func() { c.sendHeartbeats(ctx, interval) })
	token := c.gateway.o.Token
	if c.at.session != "" {
		return disconnect{}, c.write(opResume, map[string]any{"token": token, "session_id": c.at.session, "seq": c.at.seq})
	}
	if err := c.gateway.spendIdentifyBudget(ctx); err != nil {
		return disconnect{}, err
	}
	identify := map[string]any{
		"token": token, "intents": intents,
		"properties": map[string]string{"os": runtime.GOOS, "browser": "lilac", "device": "lilac"},
	}
	if on := c.gateway.shard; on.count > 1 { // other servers of the protocol may not know the field
		identify["shard"] = []int{on.id, on.count}
	}
	err = c.write(opIdentify, identify)
	c.identified()
	return disconnect{}, err
}

// sendHeartbeats sends heartbeats, the first after a random part of the interval
// ("Gateway", sending heartbeats), and ends a connection that does not
// acknowledge them.
func (c *connection) sendHeartbeats(ctx context.Context, interval time.Duration) {
	wait := time.Duration(c.gateway.o.Rand() * float64(interval))
	for delay.Wait(ctx, wait) {
		wait = interval
		if c.unacknowledged.Load() {
			if c.queueing.Load() {
				continue // the acknowledgment waits behind events that are stored slowly
			}
			c.zombie.Store(true)
			c.close()
			return
		}
		c.unacknowledged.Store(true)
		if c.heartbeat() != nil {
			_ = c.conn.Close() // the reader reports the error
			return
		}
	}
}

func (c *connection) heartbeat() error {
	var seq any
	if n := c.seq.Load(); n > 0 {
		seq = n
	}
	return c.write(opHeartbeat, seq)
}

func (c *connection) read() (f frame, err error) {
	_, data, err := c.conn.ReadMessage()
	if err != nil {
		return f, fmt.Errorf("read from the gateway: %w", err)
	}
	if err := json.Unmarshal(data, &f); err != nil {
		return f, fmt.Errorf("decode a gateway frame: %w", err)
	}
	return f, nil
}

func (c *connection) write(op int, data any) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	_ = c.conn.SetWriteDeadline(time.Now().Add(writeTimeout)) // the write reports an error
	if err := c.conn.WriteJSON(map[string]any{"op": op, "d": data}); err != nil {
		return fmt.Errorf("write to the gateway: %w", err)
	}
	return nil
}

// handle processes a frame. The connection ends if the result asks for a
// reconnection.
func (c *connection) handle(ctx context.Context, f frame) (disconnect, error) {
	switch f.Op {
	case opDispatch:
		c.gateway.shard.noteSignal()
		return disconnect{}, c.dispatch(ctx, f)
	case opHeartbeat:
		return disconnect{}, c.heartbeat()
	case opHeartbeatAck:
		c.gateway.shard.noteSignal()
		c.unacknowledged.Store(false)
	case opReconnect:
		return disconnect{reconnect: true}, nil
	case opInvalidSession:
		var resumable bool
		_ = json.Unmarshal(f.Data, &resumable) // anything else means false
		return disconnect{sessionInvalid: true, resumable: resumable}, nil
	}
	return disconnect{}, nil
}

// dispatch queues an event, and waits while the queue is full.
func (c *connection) dispatch(ctx context.Context, f frame) error {
	if f.Seq == nil {
		return nil
	}
	next := position{session: c.at.session, resumeURL: c.at.resumeURL, seq: *f.Seq}
	switch f.Type {
	case "READY":
		var ready wireReady
		if _, err := decodeLenient(f.Data, &ready); err != nil {
			return fmt.Errorf("decode the gateway's ready event: %w", err)
		}
		if ready.SessionID == "" {
			return errors.New("the gateway's ready event names no session")
		}
		next.session, next.resumeURL = ready.SessionID, ready.ResumeURL
		c.liveSince = time.Now()
	case "RESUMED":
		c.liveSince = time.Now()
		c.gateway.shard.setLive()
		c.gateway.guilds.changed.notify() // a resumed session does not list the servers
	}
	if next.seq <= c.at.seq && next.session == c.at.session {
		return nil // a repetition
	}
	if f.Type == "INTERACTION_CREATE" {
		// It must be acknowledged within three seconds, so it skips the queue.
		c.gateway.interactions.receive(ctx, f.Data)
	}
	d := &dispatch{session: next.session, resumeURL: next.resumeURL, seq: next.seq, kind: f.Type, data: f.Data, ready: make(chan struct{})}
	c.queueing.Store(true)
	defer c.queueing.Store(false)
	c.prepare(d)
	select {
	case c.gateway.pipeline.queue <- d:
		*c.at = next
		c.seq.Store(next.seq)
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
