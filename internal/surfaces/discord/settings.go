package discord

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"lilac/internal/core/surface"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/grant"
	"lilac/internal/foundation/setting"
)

// Settings is the section "surface.discord" of the configuration.
type Settings struct {
	Token             setting.Secret             `json:"token,omitempty" jsonschema:"The bot's token. Prefer DISCORD_TOKEN to a token in the file."`
	APIURL            string                     `json:"apiURL,omitempty" jsonschema:"Base URL of the REST API, including its version. Any Discord-compatible server works."`
	GatewayURL        string                     `json:"gatewayURL,omitempty" jsonschema:"URL of the gateway (wss://…). Default: the URL that the REST API returns."`
	AllowedChannelIDs []string                   `json:"allowedChannelIds,omitempty" jsonschema:"IDs of channels in which the bot listens and writes. Threads belong to their channel. Listing the channel or its server is enough. If this list and allowedGuildIds are empty, the bot listens in no channel."`
	AllowedGuildIDs   []string                   `json:"allowedGuildIds,omitempty" jsonschema:"IDs of servers (guilds) in whose channels the bot listens and writes."`
	AllowDMs          bool                       `json:"allowDMs,omitempty" jsonschema:"Whether everybody may send the bot private messages."`
	AllowedUserIDs    []string                   `json:"allowedUserIds,omitempty" jsonschema:"IDs of people who may send the bot private messages."`
	Pairing           string                     `json:"pairing,omitempty" enum:"code,off" jsonschema:"What strangers get who send a private message: code (a code that the operator approves with lilac pairing) or off (no answer)."`
	Access            AccessSettings             `json:"access,omitempty" jsonschema:"Who may talk to the agent, who may stop the answers of others, and for whom it may act."`
	Tools             grant.Config               `json:"tools,omitempty" jsonschema:"What requests on Discord may use. The restrictions of a channel and of a rule apply in addition."`
	Mode              string                     `json:"mode,omitempty" enum:"mention,active" jsonschema:"What wakes the bot in a channel: mention (a mention or a reply to it) or active (any message; bursts are answered together)."`
	Channels          map[string]ChannelSettings `json:"channels,omitempty" jsonschema:"Settings of single channels, by ID."`
	PingAfter         setting.Duration           `json:"pingAfter,omitempty" jsonschema:"How long an answer may take before its end notifies the person who asked. 0s means that it never does."`
	LinkPreviews      bool                       `json:"linkPreviews,omitempty" jsonschema:"Whether Discord shows previews of the links in the bot's messages."`
	DeleteOthers      bool                       `json:"deleteOthers,omitempty" jsonschema:"Whether the agent may delete messages that are not its own (surface.messages.delete)."`
	Backfill          BackfillSettings           `json:"backfill,omitempty" jsonschema:"Which missed messages are read after an outage."`
	Attachments       AttachmentSettings         `json:"attachments,omitempty" jsonschema:"Files that people send. Lilac stores them when they arrive, because their links expire."`
	Cache             CacheSettings              `json:"cache,omitempty" jsonschema:"The message cache, for reply chains and search. Older messages are fetched again if somebody replies to them."`
}

// AccessSettings selects the people who may talk to the agent, and those for whom it may act.
type AccessSettings struct {
	Talk PeopleSettings `json:"talk,omitempty" jsonschema:"Who may talk to the agent in allowed channels and private conversations. Messages of others wake nobody."`
	Stop PeopleSettings `json:"stop,omitempty" jsonschema:"Who may stop the answers of others. People may always stop their own. Default: members who may manage messages."`
	Act  PeopleSettings `json:"act,omitempty" jsonschema:"For whom the agent may use tools that act. A request with a message of anybody else may only read and answer."`
}

// PeopleSettings selects people by user:ID and role:ID.
type PeopleSettings struct {
	Allow []string `json:"allow,omitempty" jsonschema:"The only people: user:ID or role:ID. Default: everybody."`
	Deny  []string `json:"deny,omitempty" jsonschema:"People who are excluded, even if allow lists them: user:ID or role:ID."`
}

// People returns the selection.
func (p PeopleSettings) People() surface.People { return surface.People{Allow: p.Allow, Deny: p.Deny} }

func (p PeopleSettings) check(field string) error {
	var found []error
	for key, list := range map[string][]string{"allow": p.Allow, "deny": p.Deny} {
		for i, who := range list {
			at := fmt.Sprintf("%s.%s[%d]", field, key, i)
			kind, id, _ := strings.Cut(who, ":")
			if kind != "user" && kind != "role" {
				found = append(found, fault.InvalidField(at, "%q names nobody. Use user:ID or role:ID, with an id of Discord.", who))
				continue
			}
			found = append(found, CheckID(at, id))
		}
	}
	return errors.Join(found...)
}

// Meant reports whether the operator has configured where the bot listens.
func (d Settings) Meant() bool {
	return len(d.AllowedChannelIDs)+len(d.AllowedGuildIDs)+len(d.AllowedUserIDs)+len(d.Channels) > 0 || d.AllowDMs
}

// A ChannelSettings holds the settings that differ in one channel.
type ChannelSettings struct {
	Mode  string       `json:"mode,omitempty" jsonschema:"mention or active. Without it, the channel has the mode of all others, and needs another setting."`
	Bots  bool         `json:"bots,omitempty" jsonschema:"Whether other bots and webhooks may wake the bot, as people do. At most five of their messages do so within ten minutes, unless a person does in between."`
	Tools grant.Config `json:"tools,omitempty" jsonschema:"What requests in the channel and its threads may use."`
}

// BackfillSettings bounds the messages to read after a disconnection.
type BackfillSettings struct {
	Age      setting.Duration `json:"age,omitempty" jsonschema:"Maximum age of messages that are still answered. A reply that a workflow waits for counts at any age."`
	Messages int              `json:"messages,omitempty" jsonschema:"Maximum number of messages to read per channel, newest first."`
}

// AttachmentSettings bounds the attachments to store.
type AttachmentSettings struct {
	MaxBytes setting.Size `json:"maxBytes,omitempty" jsonschema:"Maximum size of a file to store. For a larger file, only its name is kept."`
	Hosts    []string     `json:"hosts,omitempty" jsonschema:"Hosts from which files may be downloaded."`
}

// CacheSettings bounds the messages to keep.
type CacheSettings struct {
	Age      setting.Duration `json:"age,omitempty" jsonschema:"How long a message is kept after it arrived or last changed, and a thread after its last message; at least 48h."`
	Messages int              `json:"messages,omitempty" jsonschema:"Maximum number of messages in all channels together, newest first, at least 1000. The same number limits people, threads, and private conversations."`
}

// minCached is the minimum number of messages to keep, so that current conversations stay cached.
const minCached = 1000

// What strangers get who send a private message.
const (
	PairingCode = "code"
	PairingOff  = "off"
)

// The channel modes.
const (
	ModeMention = "mention"
	ModeActive  = "active"
)

// DefaultSettings returns the defaults.
func DefaultSettings() Settings {
	return Settings{
		APIURL: "https://discord.com/api/v10", Mode: ModeMention,
		PingAfter: setting.Duration(time.Minute),
		Pairing:   PairingCode,
		Backfill:  BackfillSettings{Age: setting.Duration(24 * time.Hour), Messages: 200},
		// 25 MiB is above the upload limit of Discord users without a subscription.
		Attachments: AttachmentSettings{MaxBytes: 25 << 20, Hosts: []string{"cdn.discordapp.com", "media.discordapp.net"}},
		// This many messages take about 512 MiB, including the full-text index.
		Cache: CacheSettings{Age: setting.Duration(180 * 24 * time.Hour), Messages: 500_000},
	}
}

// Config returns what the adapter needs.
func (d Settings) Config() Config {
	return Config{
		Token: d.Token.Reveal(), APIURL: d.APIURL, GatewayURL: d.GatewayURL,
		Allowed:     Allowed{AllowedChannelIDs: d.AllowedChannelIDs, AllowedGuildIDs: d.AllowedGuildIDs, AllowDMs: d.AllowDMs, AllowedUserIDs: d.AllowedUserIDs},
		BackfillAge: time.Duration(d.Backfill.Age), BackfillMessages: d.Backfill.Messages,
		AttachmentBytes: int64(d.Attachments.MaxBytes), AttachmentHosts: d.Attachments.Hosts,
	}
}

// minCacheAge is longer than the time for which a file can be stored before a table refers to it.
const minCacheAge = 48 * time.Hour

// Check rejects identifiers that Discord cannot have, modes that do not exist, and limits
// below their minimum. It returns all mistakes.
func (d Settings) Check() error {
	var found []error
	found = append(found, d.Tools.Check("surface.discord.tools"),
		d.Access.Talk.check("surface.discord.access.talk"), d.Access.Act.check("surface.discord.access.act"), d.Access.Stop.check("surface.discord.access.stop"))
	if strings.ContainsFunc(d.Token.Reveal(), unicode.IsSpace) {
		found = append(found, fault.InvalidField("surface.discord.token", "The bot's token (DISCORD_TOKEN) has a space in it. It is the text alone that Discord shows once, without “Bot” before it."))
	}
	for key, address := range map[string]string{"apiURL": d.APIURL, "gatewayURL": d.GatewayURL} {
		schemes := map[string]bool{"http": true, "https": true}
		if key == "gatewayURL" {
			schemes = map[string]bool{"ws": true, "wss": true, "": address == ""}
		}
		if u, err := url.Parse(address); err != nil || !schemes[u.Scheme] || u.Host == "" && address != "" {
			found = append(found, fault.InvalidField("surface.discord."+key, "%q is not an address of a Discord-compatible server.", address))
		}
	}
	lists := map[string][]string{"allowedChannelIds": d.AllowedChannelIDs, "allowedGuildIds": d.AllowedGuildIDs, "allowedUserIds": d.AllowedUserIDs}
	for channel, set := range d.Channels {
		lists["channels"] = append(lists["channels"], channel)
		if set.Mode != "" || !set.Bots && len(set.Tools.Allow)+len(set.Tools.Deny) == 0 { // without a mode, the channel has the default one
			found = append(found, checkMode("surface.discord.channels."+channel+".mode", set.Mode))
		}
		found = append(found, set.Tools.Check("surface.discord.channels."+channel+".tools"))
	}
	for key, ids := range lists {
		for i, id := range ids {
			field := fmt.Sprintf("surface.discord.%s[%d]", key, i)
			if key == "channels" {
				field = "surface.discord.channels." + id
			}
			found = append(found, CheckID(field, id))
		}
	}
	for key, n := range map[string]int64{"pingAfter": int64(d.PingAfter), "backfill.age": int64(d.Backfill.Age), "backfill.messages": int64(d.Backfill.Messages), "attachments.maxBytes": int64(d.Attachments.MaxBytes)} {
		if n < 0 {
			found = append(found, fault.InvalidField("surface.discord."+key, "surface.discord.%s is below zero.", key))
		}
	}
	if time.Duration(d.Cache.Age) < minCacheAge {
		found = append(found, fault.InvalidField("surface.discord.cache.age", "surface.discord.cache.age is less than 48h."))
	}
	if d.Cache.Messages < minCached {
		found = append(found, fault.InvalidField("surface.discord.cache.messages", "surface.discord.cache.messages is less than %d.", minCached))
	}
	return errors.Join(append(found, checkMode("surface.discord.mode", d.Mode))...)
}

// CheckID rejects a text that is not an id of Discord; field is the key in the configuration.
func CheckID(field, id string) error {
	if n, err := strconv.ParseUint(id, 10, 64); err != nil || n == 0 {
		return fault.InvalidField(field, "%q is not an id of Discord. Switch on Settings, Advanced, Developer Mode in Discord; then the menu of a server, channel or person has “Copy ID”. In the file it stands in quotes.", id)
	}
	return nil
}

func checkMode(key, mode string) error {
	if mode != ModeMention && mode != ModeActive {
		return fault.InvalidField(key, "%s is %q; it can be %s or %s.", key, mode, ModeMention, ModeActive)
	}
	return nil
}
