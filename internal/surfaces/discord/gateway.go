package discord

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/delay"
	"lilac/internal/foundation/fault"
)

const (
	// helloTimeout bounds the wait for the first frame, handshakeTimeout the
	// connection, writeTimeout one write.
	helloTimeout     = 20 * time.Second
	handshakeTimeout = 20 * time.Second
	writeTimeout     = 10 * time.Second
	// maxHeartbeat keeps the acknowledgments of heartbeats well within
	// silentAfter. Discord's interval is 45 seconds in the documentation's example
	// ("Gateway", hello event), and earlier heartbeats are allowed ("Sending
	// Heartbeats").
	maxHeartbeat = 42 * time.Second
	// maxFrame bounds one event. Discord states no limit; the largest event is a
	// server with all its channels.
	maxFrame = 64 << 20
	// maxResumeFailures is how often in a row the session's own address is tried
	// before the general one ("Gateway", disconnecting), and after how many
	// failures the log warns.
	maxResumeFailures = 3
	// closeKeepSession is any code except 1000 and 1001, which end the session
	// ("Gateway", disconnecting).
	closeKeepSession = 4000
)

// Gateway opcodes ("Opcodes and Status Codes").
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

// intents are the subscribed events: servers, messages and reactions in servers
// and private conversations, and the content of messages ("Gateway", list of
// intents).
const intents = 1<<0 | 1<<9 | 1<<10 | 1<<12 | 1<<13 | 1<<15

// frame is one gateway message.
type frame struct {
	Op   int             `json:"op"`
	Data json.RawMessage `json:"d"`
	Seq  *int64          `json:"s"`
	Type string          `json:"t"`
}

// position is how far the reader has received; the stored position is behind it.
type position struct {
	session, resumeURL string
	seq                int64
}

// gateway keeps the connection of a shard to Discord's gateway. The library has a gateway
// client too, but it acknowledges an event before its handler has stored it, and
// reconnects on its own; see the decision page on the Discord library.
type gateway struct {
	o            Options
	status       *status
	shard        *shard
	client       *client
	pipeline     *pipeline
	interactions *interactions
	guilds       *guildSync
	// turn is held while a session begins: Discord lets one begin at a time.
	turn chan struct{}
}

// run reconnects until ctx ends or a connection is impossible. It begins with the
// stored position. Events are prepared until storing ends.
func (g *gateway) run(ctx, storing context.Context, at position) error {
	failures := 0
	for {
		end := g.connect(ctx, storing, &at)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		g.shard.setDisconnected(end.err)
		if fault.KindOf(end.err) == fault.Unauthenticated {
			return end.err
		}
		next := decideReconnection(end, failures, g.o.Rand())
		if next.fatal != nil {
			return next.fatal
		}
		failures = next.failures
		if next.newSession {
			at = position{}
		}
		if end.dialFailed && failures >= maxResumeFailures {
			at.resumeURL = "" // the host may be gone; others know the session too
		}
		level := slog.LevelInfo
		if failures >= maxResumeFailures {
			level = slog.LevelWarn
		}
		g.o.Logger.Log(ctx, level, "the connection to Discord ended", "error", end.reason(), "wait", next.wait.String(), "resume", at.session != "", "shard", g.shard.id)
		if !delay.Wait(ctx, next.wait) {
			return ctx.Err()
		}
	}
}

// connect holds one connection until it ends.
func (g *gateway) connect(ctx, storing context.Context, at *position) disconnect {
	identified := func() {}
	if at.session == "" {
		done, err := g.waitForTurn(ctx)
		if err != nil {
			return disconnect{err: err}
		}
		defer done()
		identified = done
	}
	address, err := g.address(ctx, at)
	if err != nil {
		return disconnect{err: err}
	}
	dialer := websocket.Dialer{Proxy: http.ProxyFromEnvironment, HandshakeTimeout: handshakeTimeout, NetDialContext: g.o.Dial}
	conn, response, err := dialer.DialContext(ctx, address, nil)
	if err != nil {
		if response != nil {
			err = fmt.Errorf("%w (status %d)", err, response.StatusCode)
		}
		return disconnect{err: fmt.Errorf("dial the gateway: %w", err), dialFailed: true}
	}
	conn.SetReadLimit(maxFrame)
	c := &connection{gateway: g, conn: conn, at: at, identified: identified, prepare: func(d *dispatch) { g.pipeline.prepare(storing, d) }}
	return c.run(ctx)
}

// address returns where to connect: the address of the session, the configured
// one, or the one that Discord returns.
func (g *gateway) address(ctx context.Context, at *position) (string, error) {
	address := g.o.GatewayURL
	if at.session != "" && at.resumeURL != "" {
		address = at.resumeURL
	}
	if address == "" {
		var answer struct {
			URL   string `json:"url"`
			Limit struct {
				Remaining *int  `json:"remaining"`
				Reset     int64 `json:"reset_after"`
			} `json:"session_start_limit"`
		}
		if err := g.client.get(ctx, getGatewayBot.with(), &answer); err != nil {
			return "", err
		}
		if left := answer.Limit.Remaining; left != nil && *left <= 0 && at.session == "" {
			// One more would reset the token ("Gateway", session start limit object).
			wait := (time.Duration(answer.Limit.Reset) * time.Millisecond).Round(time.Second)
			return "", fault.New(fault.Unavailable, "The bot has begun as many sessions as Discord allows in a day; the next may begin in %s. If Lilac did not begin them, another program uses the token: stop it, or reset the token.", wait)
		}
		address = answer.URL
	}
	u, err := url.Parse(address)
	if err != nil {
		return "", fmt.Errorf("parse the gateway address: %w", err)
	}
	query := u.Query()
	query.Set("v", "10")
	query.Set("encoding", "json")
	u.RawQuery = query.Encode()
	return u.String(), nil
}

func (g *gateway) identifyLimit() IdentifyLimit { return g.o.IdentifyLimit.shared(g.shard.count) }

// waitForTurn waits until a new session may begin. The caller calls done once it has
// begun, or cannot begin.
func (g *gateway) waitForTurn(ctx context.Context) (done func(), err error) {
	select {
	case g.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	done = sync.OnceFunc(func() { <-g.turn })
	if err := g.waitForIdentifyBudget(ctx); err != nil {
		done()
		return nil, err
	}
	return done, nil
}

// waitForIdentifyBudget waits until the limit allows a new session.
func (g *gateway) waitForIdentifyBudget(ctx context.Context) error {
	for {
		_, wait := g.status.snapshot().Budget.spend(time.Now(), g.identifyLimit())
		if wait == 0 {
			return nil
		}
		if wait > g.o.IdentifyLimit.MinInterval {
			g.o.Logger.WarnContext(ctx, "too many Discord gateway sessions began; the next one waits", "wait", wait.String())
		}
		if !delay.Wait(ctx, wait) {
			return ctx.Err()
		}
	}
}

// spendIdentifyBudget stores that a session begins. An attempt that fails before
// costs nothing.
func (g *gateway) spendIdentifyBudget(ctx context.Context) error {
	budget, wait := g.status.spendIdentify(g.identifyLimit())
	if wait > 0 {
		return errors.New("another gateway session began meanwhile")
	}
	err := g.o.DB.UpdateRelaxed(ctx, func(tx *db.Tx) error {
		saved, err := g.status.saved(tx, g.o.Tables.Gateway)
		if err != nil {
			return err
		}
		saved.Budget = budget
		return g.o.Tables.Gateway.SaveGateway(tx, saved)
	})
	if err != nil {
		return fmt.Errorf("count a gateway session: %w", err)
	}
	return nil
}

// closeCode returns the code that a connection was closed with, 0 for none.
func closeCode(err error) int {
	var closed *websocket.CloseError
	if errors.As(err, &closed) && closed.Code != websocket.CloseAbnormalClosure {
		return closed.Code
	}
	return 0
}
