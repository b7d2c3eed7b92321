package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"lilac/internal/core/outbox"
	"lilac/internal/core/relay"
	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
	"lilac/internal/surfaces/discord"
)

// discordMigration keeps where the gateway of Discord was left, what of its
// channels was not heard, and which message a nonce made.
var discordMigration = db.Migration{Name: "discord.0001-gateway", SQL: `
CREATE TABLE discord_gateway (
	one      INTEGER PRIMARY KEY CHECK (one = 1),
	json     BLOB NOT NULL,
	checksum INTEGER NOT NULL
) STRICT;

CREATE TABLE discord_gaps (
	channel_id TEXT PRIMARY KEY,
	json       BLOB NOT NULL,
	checksum   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE discord_nonces (
	channel_id TEXT NOT NULL,
	nonce      TEXT NOT NULL,
	message_id TEXT NOT NULL,
	at         INTEGER NOT NULL,
	PRIMARY KEY (channel_id, nonce)
) STRICT, WITHOUT ROWID;
CREATE INDEX discord_nonces_at ON discord_nonces (at);
`}

// ordersMigration keeps what people asked for on Discord until it is done.
var ordersMigration = db.Migration{Name: "discord.0002-orders", SQL: `
CREATE TABLE discord_orders (
	id       TEXT PRIMARY KEY,
	json     BLOB NOT NULL,
	checksum INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
`}

// nonceTrimBatch bounds what is forgotten with each nonce.
const nonceTrimBatch = 100

// Discord joins the tables of the Discord adapter.
type Discord struct {
	SurfaceCache
	DiscordGateway
	DiscordGaps
	DiscordOrders
	DiscordNonces
	DiscordOutbox
}

type (
	// DiscordGateway is the table of the gateway session to resume.
	DiscordGateway struct{}
	// DiscordGaps is the table of channels whose messages have to be fetched.
	DiscordGaps struct{}
	// DiscordOrders is the table of commands that people gave and that are not done yet.
	DiscordOrders struct{}
	// DiscordNonces is the table of the messages that each nonce created.
	DiscordNonces struct{}
	// DiscordOutbox finds rows of the outbox by nonce and by message.
	DiscordOutbox struct{}
)

// NewDiscord returns the tables of the adapter.
func NewDiscord(*Store) Discord { return Discord{} }

// Seen implements [discord.Inbox].
func (Discord) Seen(tx *db.Tx, source, externalID string, value []byte) (prior []byte, seen bool, err error) {
	return Inbox{}.Seen(tx, source, externalID, value)
}

var _ = discord.TablesOf[Discord]

// gatewayKey is the key of the only row of its table.
const gatewayKey = "gateway"

// Gateway implements [discord.GatewayTable].
func (DiscordGateway) Gateway(q db.Queryer) (g discord.GatewayState, err error) {
	var data []byte
	var checksum int64
	err = q.QueryRow(`SELECT json, checksum FROM discord_gateway WHERE one = 1`).Scan(&data, &checksum)
	if errors.Is(err, db.ErrNoRows) {
		return g, nil
	}
	if err != nil {
		return g, fmt.Errorf("read the gateway's state: %w", err)
	}
	return g, decode("discord_gateway", gatewayKey, data, checksum, &g)
}

// SaveGateway implements [discord.GatewayTable].
func (DiscordGateway) SaveGateway(tx *db.Tx, g discord.GatewayState) error {
	data, err := json.Marshal(g)
	if err != nil {
		return fmt.Errorf("encode the gateway's state: %w", err)
	}
	_, err = tx.Exec(`INSERT INTO discord_gateway (one, json, checksum) VALUES (1, ?, ?)
		ON CONFLICT DO UPDATE SET json = excluded.json, checksum = excluded.checksum`, data, sum(gatewayKey, data))
	return wrap("save the gateway's state", err)
}

// OpenGap implements [discord.GapTable].
func (d DiscordGaps) OpenGap(tx *db.Tx, g discord.Gap) error {
	old, err := d.gap(tx, g.ChannelID)
	if err != nil {
		return err
	}
	switch {
	case g.After == "":
		g.After, g.Until = old.After, old.Until
	case old.After != "":
		if laterID(g.After, old.After) {
			g.After = old.After
		}
		if old.Until == "" || g.Until != "" && laterID(old.Until, g.Until) {
			g.Until = old.Until
		}
	}
	if old.Threads != 0 && (g.Threads == 0 || old.Threads < g.Threads) {
		g.Threads = old.Threads
	}
	g.Opened = old.Opened + 1
	return d.putGap(tx, g)
}

// gap is what is open of a channel, the zero value for nothing.
func (DiscordGaps) gap(q db.Queryer, channelID string) (g discord.Gap, err error) {
	var data []byte
	var checksum int64
	err = q.QueryRow(`SELECT json, checksum FROM discord_gaps WHERE channel_id = ?`, channelID).Scan(&data, &checksum)
	if errors.Is(err, db.ErrNoRows) {
		return discord.Gap{ChannelID: channelID}, nil
	}
	if err != nil {
		return g, fmt.Errorf("read gap: %w", err)
	}
	return g, decode("discord_gaps", channelID, data, checksum, &g)
}

func (DiscordGaps) putGap(tx *db.Tx, g discord.Gap) error {
	data, err := json.Marshal(g)
	if err != nil {
		return fmt.Errorf("encode gap %s: %w", g.ChannelID, err)
	}
	_, err = tx.Exec(`INSERT INTO discord_gaps (channel_id, json, checksum) VALUES (?, ?, ?)
		ON CONFLICT DO UPDATE SET json = excluded.json, checksum = excluded.checksum`, g.ChannelID, data, sum(g.ChannelID, data))
	return wrap("open gap", err)
}

// Gaps implements [discord.GapTable].
func (DiscordGaps) Gaps(q db.Queryer, limit int) ([]discord.Gap, error) {
	out, err := sound(q, func(r scanner) (g discord.Gap, err error) {
		var channel string
		var data []byte
		var checksum int64
		if err := r.Scan(&channel, &data, &checksum); err != nil {
			return g, err
		}
		return g, decode("discord_gaps", channel, data, checksum, &g)
	}, `SELECT channel_id, json, checksum FROM discord_gaps ORDER BY channel_id LIMIT ?`, limit)
	return out, wrap("list gaps", err)
}

// CloseGap implements [discord.GapTable].
func (d DiscordGaps) CloseGap(tx *db.Tx, read discord.Gap) error {
	g, err := d.gap(tx, read.ChannelID)
	if err != nil {
		return err
	}
	if g.Opened != read.Opened {
		return nil
	}
	if read.After != "" {
		g.After, g.Until = "", ""
	}
	if read.Threads != 0 {
		g.Threads = 0
	}
	if g.After != "" || g.Threads != 0 {
		return d.putGap(tx, g)
	}
	_, err = tx.Exec(`DELETE FROM discord_gaps WHERE channel_id = ?`, g.ChannelID)
	return wrap("close gap", err)
}

// Uncached implements [discord.ChannelTable].
func (Discord) Uncached(q db.Queryer, guildIDs, channelIDs []string) (guilds, channels []string, err error) {
	for _, c := range []struct {
		ids   []string
		where string
		out   *[]string
	}{{guildIDs, "kind = 'channel' AND json ->> '$.guildId' = j.value", &guilds}, {channelIDs, "channel_id = j.value", &channels}} {
		ids, err := json.Marshal(append([]string{}, c.ids...))
		if err != nil {
			return nil, nil, fmt.Errorf("encode ids: %w", err)
		}
		*c.out, err = collect(q, scanID, `SELECT j.value FROM json_each(?) j
			WHERE NOT EXISTS (SELECT 1 FROM surface_sessions WHERE platform = ? AND `+c.where+`)`, string(ids), discord.Platform)
		if err != nil {
			return nil, nil, fmt.Errorf("look for what is unknown: %w", err)
		}
	}
	return guilds, channels, nil
}

// PutInteraction implements [discord.InteractionTable].
func (DiscordOrders) PutInteraction(tx *db.Tx, o discord.PendingInteraction) error {
	data, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("encode order %s: %w", o.ID, err)
	}
	_, err = tx.Exec(`INSERT INTO discord_orders (id, json, checksum) VALUES (?, ?, ?)
		ON CONFLICT DO UPDATE SET json = excluded.json, checksum = excluded.checksum`, o.ID, data, sum(o.ID, data))
	return wrap("write order", err)
}

// Interactions implements [discord.InteractionTable]. What is damaged holds up nothing else.
func (DiscordOrders) Interactions(q db.Queryer, limit int) (out []discord.PendingInteraction, err error) {
	type row struct {
		id       string
		data     []byte
		checksum int64
	}
	rows, err := collect(q, func(r scanner) (out row, err error) { return out, r.Scan(&out.id, &out.data, &out.checksum) },
		`SELECT id, json, checksum FROM discord_orders ORDER BY length(id), id LIMIT ?`, limit)
	if err != nil {
		return nil, fmt.Errorf("list orders: %w", err)
	}
	for _, r := range rows {
		var o discord.PendingInteraction
		if wrong := decode("discord_orders", r.id, r.data, r.checksum, &o); wrong != nil {
			err = errors.Join(err, wrong)
			continue
		}
		out = append(out, o)
	}
	return out, err
}

// DeleteInteraction implements [discord.InteractionTable].
func (DiscordOrders) DeleteInteraction(tx *db.Tx, id string) error {
	_, err := tx.Exec(`DELETE FROM discord_orders WHERE id = ?`, id)
	return wrap("drop order", err)
}

// PutNonce implements [discord.SendTable].
func (DiscordNonces) PutNonce(tx *db.Tx, channelID, nonce, messageID string, at, forget int64) error {
	if _, err := tx.Exec(`INSERT INTO discord_nonces (channel_id, nonce, message_id, at) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		channelID, nonce, messageID, at); err != nil {
		return fmt.Errorf("write nonce: %w", err)
	}
	_, err := tx.Exec(`DELETE FROM discord_nonces WHERE (channel_id, nonce) IN (SELECT channel_id, nonce FROM discord_nonces WHERE at < ? LIMIT ?)`,
		forget, nonceTrimBatch)
	return wrap("trim nonces", err)
}

// NonceMessage implements [discord.SendTable].
func (DiscordNonces) NonceMessage(q db.Queryer, channelID, nonce string) (id string, err error) {
	err = q.QueryRow(`SELECT message_id FROM discord_nonces WHERE channel_id = ? AND nonce = ?`, channelID, nonce).Scan(&id)
	return id, wrap("read nonce", notFound(err, "No message with this nonce is known in %s.", channelID))
}

// PlannedSend implements [discord.SendTable].
func (DiscordOutbox) PlannedSend(q db.Queryer, channelID, nonce string) (surface.Send, error) {
	r, err := planned(q, channelID, nonce)
	return r.Send, err
}

// planned is what is about to be sent with a nonce.
func planned(q db.Queryer, channelID, nonce string) (outbox.Row, error) {
	rows, err := sound(q, scanOutbox,
		`SELECT key, json, checksum FROM outbox WHERE platform = 'discord' AND channel_id = ? AND unfinished = 1`, channelID)
	if err != nil {
		return outbox.Row{}, fmt.Errorf("look for a nonce in the outbox: %w", err)
	}
	for _, r := range rows {
		if r.Send.Nonce == nonce {
			return r, nil
		}
	}
	return outbox.Row{}, fault.New(fault.NotFound, "Nothing with this nonce is about to be sent to %s.", channelID)
}

// AnsweredRequest implements [discord.SendTable].
func (DiscordOutbox) AnsweredRequest(q db.Queryer, channelID, nonce string) (string, error) {
	r, err := planned(q, channelID, nonce)
	switch {
	case fault.KindOf(err) == fault.NotFound:
		return "", nil
	case err != nil:
		return "", err
	case !strings.HasPrefix(r.Key, relay.HookName+":"):
		return "", nil
	}
	return r.RequestID, nil
}

// IsPlanned implements [discord.SendTable]. A damaged row may be the one that it is.
func (DiscordOutbox) IsPlanned(q db.Queryer, channelID, messageID, nonce string) (bool, error) {
	rows, err := collect(q, scanOutbox,
		`SELECT key, json, checksum FROM outbox WHERE platform = 'discord' AND channel_id = ? AND (unfinished = 1 OR message_id = ?)`, channelID, messageID)
	if err != nil {
		return false, fmt.Errorf("look for a message in the outbox: %w", err)
	}
	for _, r := range rows {
		if r.MessageID == messageID || nonce != "" && r.Send.Nonce == nonce {
			return true, nil
		}
	}
	return false, nil
}

// AwaitedMessages implements [discord.GapTable].
func (Discord) AwaitedMessages(q db.Queryer, channelID string) ([]string, error) {
	out, err := collect(q, scanID, `SELECT DISTINCT message_id FROM workflow_waits
		WHERE way = 'reply' AND platform = ? AND place = ? AND message_id <> '' AND waiting = 1`, discord.Platform, channelID)
	return out, wrap("list what is waited for", err)
}
