package store

import (
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

var ordersMigration = db.Migration{Name: "discord.0002-orders", SQL: `
CREATE TABLE discord_orders (
	id       TEXT PRIMARY KEY,
	json     BLOB NOT NULL,
	checksum INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
`}

// Discord groups the tables of the Discord adapter.
type Discord struct {
	SurfaceCache
	DiscordChannels
	DiscordGateway
	DiscordGaps
	DiscordSends
	DiscordInteractions
	Inbox
}

// DiscordChannels implements the queries of the adapter on cached channels that
// [SurfaceSessions] does not have.
type DiscordChannels struct{}

// Uncached implements [discord.ChannelTable].
func (DiscordChannels) Uncached(q db.Queryer, guildIDs, channelIDs []string) (guilds, channels []string, err error) {
	uncached := func(ids []string, where string) ([]string, error) {
		list, err := jsonList(ids)
		if err != nil {
			return nil, err
		}
		out, err := collect(q, scanID, `SELECT j.value FROM json_each(?) j
			WHERE NOT EXISTS (SELECT 1 FROM surface_sessions WHERE platform = ? AND `+where+`)`, list, discord.Platform)
		return out, wrap("list uncached channels", err)
	}
	if guilds, err = uncached(guildIDs, `kind = 'channel' AND json ->> '$.guildId' = j.value`); err != nil {
		return nil, nil, err
	}
	channels, err = uncached(channelIDs, `channel_id = j.value`)
	return guilds, channels, err
}

// DiscordGateway is the table of the gateway session, which has one row.
type DiscordGateway struct{}

var gatewayRows = newDocuments[discord.GatewayState]("discord_gateway", "'gateway'", "one", "one")

// Gateway implements [discord.GatewayTable].
func (DiscordGateway) Gateway(q db.Queryer) (discord.GatewayState, error) {
	g, err := gatewayRows.oneOrZero(q, `one = 1`)
	return g, wrap("read gateway state", err)
}

// SaveGateway implements [discord.GatewayTable].
func (DiscordGateway) SaveGateway(tx *db.Tx, g discord.GatewayState) error {
	return wrap("save gateway state", gatewayRows.put(tx, "gateway", g, 1))
}

// DiscordGaps is the table of gaps: the parts of channel histories that the bot missed.
type DiscordGaps struct{}

var gapRows = newDocuments[discord.Gap]("discord_gaps", "channel_id", "channel_id")

// OpenGap implements [discord.GapTable].
func (DiscordGaps) OpenGap(tx *db.Tx, g discord.Gap) error {
	old, err := gapRows.oneOrZero(tx, `channel_id = ?`, g.ChannelID)
	if err != nil {
		return wrap("read gap", err)
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
	return wrap("save gap", gapRows.put(tx, g.ChannelID, g))
}

// Gaps implements [discord.GapTable].
func (DiscordGaps) Gaps(q db.Queryer, limit int) ([]discord.Gap, error) {
	out, err := gapRows.readable(q, `ORDER BY channel_id LIMIT ?`, limit)
	return out, wrap("list gaps", err)
}

// CloseGap implements [discord.GapTable].
func (DiscordGaps) CloseGap(tx *db.Tx, read discord.Gap) error {
	g, err := gapRows.oneOrZero(tx, `channel_id = ?`, read.ChannelID)
	if err != nil {
		return wrap("read gap", err)
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
		return wrap("save gap", gapRows.put(tx, g.ChannelID, g))
	}
	_, err = tx.Exec(`DELETE FROM discord_gaps WHERE channel_id = ?`, read.ChannelID)
	return wrap("close gap", err)
}

// AwaitedMessages implements [discord.GapTable].
func (DiscordGaps) AwaitedMessages(q db.Queryer, channelID string) ([]string, error) {
	out, err := collect(q, scanID, `SELECT DISTINCT message_id FROM workflow_waits
		WHERE way = 'reply' AND platform = ? AND place = ? AND message_id <> '' AND waiting = 1`, discord.Platform, channelID)
	return out, wrap("list awaited messages", err)
}

// DiscordInteractions is the table of interactions that have not been answered.
type DiscordInteractions struct{}

var interactionRows = newDocuments[discord.PendingInteraction]("discord_orders", "id", "id")

// PutInteraction implements [discord.InteractionTable].
func (DiscordInteractions) PutInteraction(tx *db.Tx, i discord.PendingInteraction) error {
	return wrap("save interaction", interactionRows.put(tx, i.ID, i))
}

// Interactions implements [discord.InteractionTable].
func (DiscordInteractions) Interactions(q db.Queryer, limit int) ([]discord.PendingInteraction, error) {
	var damaged error
	out, err := collectReadable(q, func(r scanner) (discord.PendingInteraction, error) {
		i, err := interactionRows.scan(r)
		if db.IsDamaged(err) {
			damaged = errors.Join(damaged, err)
		}
		return i, err
	}, interactionRows.selectFrom+`ORDER BY length(id), id LIMIT ?`, limit)
	return out, errors.Join(wrap("list interactions", err), damaged)
}

// DeleteInteraction implements [discord.InteractionTable].
func (DiscordInteractions) DeleteInteraction(tx *db.Tx, id string) error {
	_, err := tx.Exec(`DELETE FROM discord_orders WHERE id = ?`, id)
	return wrap("delete interaction", err)
}

// DiscordSends is the table of the messages that nonces created. It also finds rows of
// the outbox by nonce and by message.
type DiscordSends struct{}

// nonceTrimBatch bounds the old nonces that are deleted with each new one.
const nonceTrimBatch = 100

// PutNonce implements [discord.SendTable].
func (DiscordSends) PutNonce(tx *db.Tx, channelID, nonce, messageID string, at, forget int64) error {
	if _, err := tx.Exec(`INSERT INTO discord_nonces (channel_id, nonce, message_id, at) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		channelID, nonce, messageID, at); err != nil {
		return fmt.Errorf("save nonce: %w", err)
	}
	_, err := tx.Exec(`DELETE FROM discord_nonces WHERE (channel_id, nonce) IN (SELECT channel_id, nonce FROM discord_nonces WHERE at < ? LIMIT ?)`,
		forget, nonceTrimBatch)
	return wrap("trim nonces", err)
}

// NonceMessage implements [discord.SendTable].
func (DiscordSends) NonceMessage(q db.Queryer, channelID, nonce string) (id string, err error) {
	err = q.QueryRow(`SELECT message_id FROM discord_nonces WHERE channel_id = ? AND nonce = ?`, channelID, nonce).Scan(&id)
	return id, wrap("read nonce", notFound(err, "There is no message with this nonce in %s.", channelID))
}

// PlannedSend implements [discord.SendTable].
func (DiscordSends) PlannedSend(q db.Queryer, channelID, nonce string) (surface.Send, error) {
	r, err := plannedRow(q, channelID, nonce)
	return r.Send, err
}

// plannedRow returns the unfinished row of the outbox with a nonce.
func plannedRow(q db.Queryer, channelID, nonce string) (outbox.Row, error) {
	rows, err := outboxRows.readable(q, `WHERE platform = 'discord' AND channel_id = ? AND unfinished = 1`, channelID)
	if err != nil {
		return outbox.Row{}, fmt.Errorf("find nonce in the outbox: %w", err)
	}
	for _, r := range rows {
		if r.Send.Nonce == nonce {
			return r, nil
		}
	}
	return outbox.Row{}, fault.New(fault.NotFound, "No message with this nonce is about to be sent to %s.", channelID)
}

// AnsweredRequest implements [discord.SendTable].
func (DiscordSends) AnsweredRequest(q db.Queryer, channelID, nonce string) (string, error) {
	r, err := plannedRow(q, channelID, nonce)
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

// IsPlanned implements [discord.SendTable]. It fails if a row is damaged, because that
// row may be the one.
func (DiscordSends) IsPlanned(q db.Queryer, channelID, messageID, nonce string) (bool, error) {
	rows, err := collect(q, outboxRows.scan, outboxRows.selectFrom+`WHERE platform = 'discord' AND channel_id = ? AND unfinished = 1
		UNION ALL `+outboxRows.selectFrom+`WHERE platform = 'discord' AND channel_id = ? AND message_id = ? AND message_id <> ''`, channelID, channelID, messageID)
	if err != nil {
		return false, fmt.Errorf("find message in the outbox: %w", err)
	}
	for _, r := range rows {
		if r.MessageID == messageID || nonce != "" && r.Send.Nonce == nonce {
			return true, nil
		}
	}
	return false, nil
}
