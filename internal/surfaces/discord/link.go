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
)

// link is one connection to the gateway.
type link struct {
	a      *Adapter
	conn   *websocket.Conn
	at     *position
	events chan<- *dispatch
	// prepare outlives the connection: what it has begun is not begun again.
	prepare func(*dispatch)

	// writing is held while something is written.
	writing sync.Mutex
	// seq is the last position that was received, for heartbeats.
	seq atomic.Int64
	// unanswered is set from a heartbeat to its answer; handing while the
	// reader waits for room, when no answer can be read.
	unanswered, handing atomic.Bool
	// zombie says that a heartbeat was not answered.
	zombie atomic.Bool
	// steady is set when events are heard: the session works.
	steady time.Time
}

var errZombie = errors.New("a heartbeat was not answered")

// run reads until the connection ends.
func (l *link) run(ctx context.Context) ending {
	ctx, cancel := context.WithCancel(ctx)
	var beats sync.WaitGroup
	// Whoever reads is freed when ctx ends.
	beats.Go(func() {
		<-ctx.Done()
		l.close()
	})
	defer beats.Wait()
	defer cancel()

	end, err := l.greet(ctx, &beats)
	for err == nil && !end.reconnect && !end.invalid {
		var f frame
		if f, err = l.read(); err == nil {
			end, err = l.handle(ctx, f)
		}
	}
	if l.zombie.Load() {
		err = errZombie
	}
	end.code, end.err = closeCode(err), err
	if !l.steady.IsZero() {
		end.lived = time.Since(l.steady)
	}
	return end
}

// close ends the connection in a way that keeps the session.
func (l *link) close() {
	_ = l.conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(closeResumable, ""), time.Now().Add(time.Second)) // it may be gone already
	_ = l.conn.Close()
}

// greet waits for hello, starts the heartbeats, and begins or resumes a
// session.
func (l *link) greet(ctx context.Context, beats *sync.WaitGroup) (ending, error) {
	_ = l.conn.SetReadDeadline(time.Now().Add(helloLimit)) // an error shows in the read
	f, err := l.read()
	if err != nil {
		return ending{}, fmt.Errorf("wait for hello: %w", err)
	}
	_ = l.conn.SetReadDeadline(time.Time{})
	var hello struct {
		Interval int64 `json:"heartbeat_interval"`
	}
	if f.Op != opHello || json.Unmarshal(f.Data, &hello) != nil || hello.Interval <= 0 {
		return ending{}, fmt.Errorf("the gateway said %d instead of hello", f.Op)
	}
	l.seq.Store(l.at.seq)
	interval := min(time.Duration(hello.Interval)*time.Millisecond, longestBeat)
	beats.Go(func() { l.beat(ctx, interval) })
	if l.at.session != "" {
		return ending{}, l.write(opResume, map[string]any{"token": l.a.o.Token, "session_id": l.at.session, "seq": l.at.seq})
	}
	if err := l.a.spendRation(ctx); err != nil {
		return ending{}, err
	}
	return ending{}, l.write(opIdentify, map[string]any{
		"token": l.a.o.Token, "intents": intents,
		"properties": map[string]string{"os": runtime.GOOS, "browser": "lilac", "device": "lilac"},
	})
}

// beat sends heartbeats, the first one after a part of the interval
// ("Gateway", sending heartbeats), and ends a connection that does not answer.
func (l *link) beat(ctx context.Context, interval time.Duration) {
	wait := time.Duration(l.a.o.Rand() * float64(interval))
	for pause(ctx, wait) {
		wait = interval
		if l.unanswered.Load() {
			if l.handing.Load() {
				continue // the answer waits behind events that we are slow with
			}
			l.zombie.Store(true)
			l.close()
			return
		}
		l.unanswered.Store(true)
		if l.heartbeat() != nil {
			_ = l.conn.Close() // the reader says why
			return
		}
	}
}

func (l *link) heartbeat() error {
	var seq any
	if n := l.seq.Load(); n > 0 {
		seq = n
	}
	return l.write(opHeartbeat, seq)
}

func (l *link) read() (f frame, err error) {
	_, data, err := l.conn.ReadMessage()
	if err != nil {
		return f, fmt.Errorf("read from the gateway: %w", err)
	}
	if err := json.Unmarshal(data, &f); err != nil {
		return f, fmt.Errorf("read an event: %w", err)
	}
	return f, nil
}

func (l *link) write(op int, data any) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	_ = l.conn.SetWriteDeadline(time.Now().Add(writeLimit)) // an error shows in the write
	if err := l.conn.WriteJSON(map[string]any{"op": op, "d": data}); err != nil {
		return fmt.Errorf("write to the gateway: %w", err)
	}
	return nil
}

// handle does what a frame asks for; an ending that says something ends the
// connection.
func (l *link) handle(ctx context.Context, f frame) (ending, error) {
	switch f.Op {
	case opDispatch:
		l.a.hears()
		return ending{}, l.dispatch(ctx, f)
	case opHeartbeat:
		return ending{}, l.heartbeat()
	case opHeartbeatAck:
		l.a.hears()
		l.unanswered.Store(false)
	case opReconnect:
		return ending{reconnect: true}, nil
	case opInvalidSession:
		var resumable bool
		_ = json.Unmarshal(f.Data, &resumable) // anything else is no
		return ending{invalid: true, resumable: resumable}, nil
	}
	return ending{}, nil
}

// dispatch hands an event over, and waits for room if there is none.
func (l *link) dispatch(ctx context.Context, f frame) error {
	if f.Seq == nil {
		return nil
	}
	next := position{session: l.at.session, resumeURL: l.at.resumeURL, seq: *f.Seq}
	switch f.Type {
	case "READY":
		var ready wireReady
		if err := json.Unmarshal(f.Data, &ready); err != nil || ready.SessionID == "" {
			return fmt.Errorf("the gateway's ready cannot be read: %w", err)
		}
		next.session, next.resumeURL = ready.SessionID, ready.ResumeURL
		l.works()
	case "RESUMED":
		l.works()
		l.a.hearsSession()
		wake(l.a.changed) // it was not told which channels there are
	}
	if next.seq <= l.at.seq && next.session == l.at.session {
		return nil // told again
	}
	if f.Type == "INTERACTION_CREATE" {
		// It must be acknowledged within three seconds and waits for nobody.
		l.a.interact(ctx, f.Data)
	}
	d := &dispatch{session: next.session, resumeURL: next.resumeURL, seq: next.seq, kind: f.Type, data: f.Data, ready: make(chan struct{})}
	l.handing.Store(true)
	defer l.handing.Store(false)
	l.prepare(d)
	select {
	case l.events <- d:
		*l.at = next
		l.seq.Store(next.seq)
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// works notes that the session works.
func (l *link) works() { l.steady = time.Now() }
