package discord

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"github.com/disgoorg/disgo/rest"
	"github.com/gorilla/websocket"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
)

const (
	// maxHandover is how many events wait to be taken in: room for the start
	// of a hundred servers. When it is full the reader waits.
	maxHandover = 256
	// helloLimit bounds the wait for the first word, handshakeLimit that for
	// the connection, writeLimit one write.
	helloLimit     = 20 * time.Second
	handshakeLimit = 20 * time.Second
	writeLimit     = 10 * time.Second
	// longestBeat keeps the answers to heartbeats well within deafAfter. Discord
	// says how often it wants one ("Gateway", hello event: 45 seconds in its
	// example) and takes them sooner ("Sending Heartbeats").
	longestBeat = 42 * time.Second
	// maxFrame bounds one event, which Discord does not; the largest is a server
	// with all its channels.
	maxFrame = 64 << 20
	// resumeTries is how often the address of a session is tried in a row before
	// that of all ("Gateway", disconnecting); so much trouble is also worth a
	// warning.
	resumeTries = 3
	// closeResumable is any code but 1000 and 1001, which end the session
	// ("Gateway", disconnecting).
	closeResumable = 4000
)

// The opcodes ("Opcodes and Status Codes", gateway opcodes).
const (
	opDispatch       = 0
	opHeartbeat      = 1
	opIdentify       = 2
	opResume         = 6
	opReconnect      = 7
	opInvalidSession = 9
	opHello          = 10
	opHeartbeatAck   = 11
)

// intents are the events that we ask for: servers, messages and reactions in
// servers and private conversations, and what messages say ("Gateway",
// list of intents).
const intents = 1<<0 | 1<<9 | 1<<10 | 1<<12 | 1<<13 | 1<<15

type frame struct {
	Op   int             `json:"op"`
	Data json.RawMessage `json:"d"`
	Seq  *int64          `json:"s"`
	Type string          `json:"t"`
}

// dispatch is an event on its way from the reader to the transaction.
type dispatch struct {
	session, resumeURL string
	seq                int64
	kind               string
	data               json.RawMessage
	// heard is when the reader handed it over.
	heard time.Time
	// ready is closed when write is set: what the event changes, nil for nothing.
	ready chan struct{}
	write func(*db.Tx) error
	// gap says that it opens one, to be set before ready is closed.
	gap bool
}

// position is where the reader stands; what was taken in may be behind it.
type position struct {
	session, resumeURL string
	seq                int64
}

// connectAgain keeps a connection until ctx ends or none is possible.
func (a *Adapter) connectAgain(ctx context.Context, events chan<- *dispatch) error {
	a.mu.Lock()
	at := position{session: a.state.SessionID, resumeURL: a.state.ResumeURL, seq: a.state.Sequence}
	a.mu.Unlock()
	failures := 0
	for {
		end := a.connect(ctx, &at, events)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		a.troubled(end.err)
		if fault.KindOf(end.err) == fault.Unauthenticated {
			return end.err
		}
		next := after(end, failures, a.o.Rand())
		if next.fatal != nil {
			return next.fatal
		}
		failures = next.failures
		if next.forget {
			at = position{}
		}
		if end.unreached && failures >= resumeTries {
			at.resumeURL = "" // it may be gone; the session is known elsewhere, too
		}
		level := slog.LevelInfo
		if failures >= resumeTries {
			level = slog.LevelWarn
		}
		a.o.Logger.Log(ctx, level, "the connection to Discord ended", "error", end.err, "pause", next.pause.String(), "resume", at.session != "")
		if !pause(ctx, next.pause) {
			return ctx.Err()
		}
	}
}

func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// connect holds one connection until it ends.
func (a *Adapter) connect(ctx context.Context, at *position, events chan<- *dispatch) ending {
	if at.session == "" {
		if err := a.awaitRation(ctx); err != nil {
			return ending{err: err}
		}
	}
	address, err := a.gatewayAddress(ctx, at)
	if err != nil {
		return ending{err: err}
	}
	dialer := websocket.Dialer{HandshakeTimeout: handshakeLimit, NetDialContext: a.o.Dial}
	conn, response, err := dialer.DialContext(ctx, address, nil)
	if err != nil {
		if response != nil {
			err = fmt.Errorf("%w (status %d)", err, response.StatusCode)
		}
		return ending{err: fmt.Errorf("dial the gateway: %w", err), unreached: true}
	}
	conn.SetReadLimit(maxFrame)
	l := &link{a: a, conn: conn, at: at, events: events, prepare: func(d *dispatch) { a.prepare(ctx, d) }}
	return l.run(ctx)
}

// gatewayAddress is where to connect: where the session is, what the
// configuration says, or what Discord answers.
func (a *Adapter) gatewayAddress(ctx context.Context, at *position) (string, error) {
	address := a.o.GatewayURL
	if at.session != "" && at.resumeURL != "" {
		address = at.resumeURL
	}
	if address == "" {
		var answer struct {
			URL string `json:"url"`
		}
		err := a.api.do(ctx, rest.GetGatewayBot.Compile(nil), nil, &answer)
		if fault.KindOf(err) == fault.NotFound {
			return "", fault.Wrap(fault.Unavailable, err, "There is no API of Discord at surface.discord.apiURL: its address ends with the version, as in https://discord.com/api/v10.")
		}
		if err != nil {
			return "", err
		}
		address = answer.URL
	}
	u, err := url.Parse(address)
	if err != nil {
		return "", fmt.Errorf("read the gateway's address: %w", err)
	}
	query := u.Query()
	query.Set("v", "10")
	query.Set("encoding", "json")
	u.RawQuery = query.Encode()
	return u.String(), nil
}

// awaitRation waits until a new session may be begun.
func (a *Adapter) awaitRation(ctx context.Context) error {
	for {
		a.mu.Lock()
		_, wait := a.state.Budget.take(time.Now(), a.o.IdentifyLimit)
		a.mu.Unlock()
		if wait == 0 {
			return nil
		}
		if wait > a.o.IdentifyLimit.Apart {
			a.o.Logger.WarnContext(ctx, "so many gateway sessions were begun that the next one waits", "wait", wait.String())
		}
		if !pause(ctx, wait) {
			return ctx.Err()
		}
	}
}

// spendRation writes down that a session is begun. An attempt that does not
// come so far costs nothing.
func (a *Adapter) spendRation(ctx context.Context) error {
	a.mu.Lock()
	budget, wait := a.state.Budget.take(time.Now(), a.o.IdentifyLimit)
	if wait == 0 {
		a.state.Budget = budget
	}
	account := a.state.Account
	a.mu.Unlock()
	if wait > 0 {
		return errors.New("another gateway session was begun meanwhile")
	}
	err := a.o.DB.UpdateRelaxed(ctx, func(tx *db.Tx) error {
		saved, err := a.o.Tables.Gateway.Gateway(tx)
		if err != nil {
			return err
		}
		if saved.Account != account {
			saved = GatewayState{Account: account}
		}
		saved.Budget = budget
		return a.o.Tables.Gateway.SaveGateway(tx, saved)
	})
	if err != nil {
		return fmt.Errorf("count a gateway session: %w", err)
	}
	return nil
}

// closeCode is the code that a connection was closed with, 0 for none.
func closeCode(err error) int {
	var closed *websocket.CloseError
	if errors.As(err, &closed) && closed.Code != websocket.CloseAbnormalClosure {
		return closed.Code
	}
	return 0
}
