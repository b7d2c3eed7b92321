package discord

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"

	"github.com/disgoorg/disgo/discord"
	"github.com/disgoorg/disgo/rest"

	"lilac/internal/core/surface"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/text"
)

const (
	maxText  = 2000 // "Message Resource", create message: content
	maxNonce = 25   // the same: nonce
	maxPings = 100  // "Message Resource", allowed mentions object: users
	maxFiles = 10   // "Opcodes and Status Codes", JSON error code 30015

	// Rows of buttons on a message ("Component Reference", legacy message
	// component behavior) and buttons in a row (the same, action row).
	maxButtons = 5
	maxLabel   = 80  // "Component Reference", button: label
	maxButton  = 100 // the same: custom_id

	// maxFileBytes is the largest file that a server without boosts takes ("API
	// Reference", uploading files), maxMessageBytes all files of a message
	// ("Message Resource", create message: limitations), a little less for what
	// is around them.
	maxFileBytes    = 10 << 20
	maxMessageBytes = 25<<20 - 64<<10
	// maxFilename keeps names of files readable.
	maxFilename = 200
)

// outgoing is everything that we write.
type outgoing struct {
	Content      *string          `json:"content,omitempty"`
	Mentions     allowedMentions  `json:"allowed_mentions"`
	Components   *[]wireActionRow `json:"components,omitempty"`
	Reference    *outReference    `json:"message_reference,omitempty"`
	Nonce        string           `json:"nonce,omitempty"`
	EnforceNonce bool             `json:"enforce_nonce,omitempty"`
	Flags        int              `json:"flags,omitempty"`
}

type allowedMentions struct {
	Parse       []string `json:"parse"`
	Users       []string `json:"users"`
	RepliedUser bool     `json:"replied_user"`
}

type outReference struct {
	MessageID       string `json:"message_id"`
	FailIfNotExists bool   `json:"fail_if_not_exists"`
}

type wireActionRow struct {
	Type       int          `json:"type"`
	Components []wireButton `json:"components"`
}

type wireButton struct {
	Type  int    `json:"type"`
	Style int    `json:"style"`
	Label string `json:"label"`
	ID    string `json:"custom_id"`
}

// wrapped puts an answer to an interaction around what is written.
type wrapped struct {
	Type int      `json:"type"`
	Data outgoing `json:"data"`
}

// write is the only function that writes to Discord. Whatever its caller
// built: nobody is notified but pings, secrets are taken out, and what
// Discord would refuse is refused here. A kind makes it the answer to an
// interaction.
func (a *Adapter) write(ctx context.Context, e *rest.CompiledEndpoint, out outgoing, pings []string, files []*discord.File, kind int, into any) error {
	out.Mentions = allowedMentions{Parse: []string{}, Users: people(pings)}
	if out.Content != nil {
		text := a.o.Scrub(*out.Content)
		out.Content = &text
		if units(text) > maxText {
			return fault.New(fault.TooLarge, "A message on Discord has at most %d characters.", maxText)
		}
		if strings.TrimSpace(text) == "" && len(files) == 0 && e.Endpoint.Method == http.MethodPost && kind == 0 {
			return fault.New(fault.Invalid, "A message on Discord needs a text or a file.")
		}
	}
	if len(files) > maxFiles {
		return fault.New(fault.TooLarge, "A message on Discord carries at most %d files.", maxFiles)
	}
	if len(out.Nonce) > maxNonce {
		return fault.New(fault.Invalid, "A nonce on Discord has at most %d characters.", maxNonce)
	}
	var body any = out
	if kind != 0 {
		body = wrapped{Type: kind, Data: out}
	}
	if len(files) > 0 {
		multipart, err := discord.PayloadWithFiles(body, files...)
		if err != nil {
			return fault.Wrap(fault.Internal, err, "The files could not be packed.")
		}
		body = multipart
	}
	return a.api.do(ctx, e, body, into)
}

// people are the ids that may be notified.
func people(pings []string) []string {
	out := []string{}
	for _, id := range pings {
		if snowflake(id) && len(out) < maxPings && !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}

// units is the length of a text as Discord counts it.
func units(s string) int { return len(utf16.Encode([]rune(s))) }

// Send implements [surface.Adapter].
func (a *Adapter) Send(ctx context.Context, s surface.Send) (surface.Message, error) {
	if err := a.mayWrite(ctx, s.ChannelID); err != nil {
		return surface.Message{}, err
	}
	files, err := a.files(ctx, s.Files)
	if err != nil {
		return surface.Message{}, err
	}
	out := outgoing{Content: &s.Text, Nonce: s.Nonce, EnforceNonce: s.Nonce != ""}
	if rows := a.buttons(s.Buttons); len(rows) > 0 {
		out.Components = &rows
	}
	if s.ReplyTo != "" {
		out.Reference = &outReference{MessageID: s.ReplyTo}
	}
	a.sending(s.Nonce)
	var made wireMessage
	err = a.refused.try(s.ChannelID, needsOf(s), func() error {
		return a.write(ctx, rest.CreateMessage.Compile(nil, s.ChannelID), out, s.PingUsers, files, 0, &made)
	})
	if err != nil {
		return surface.Message{}, err
	}
	if made.ID == "" {
		return surface.Message{}, fault.New(fault.Timeout, "Discord's answer names no message, so nobody knows whether it was sent.")
	}
	made.ChannelID = s.ChannelID
	return a.message(made), nil
}

// Edit implements [surface.Adapter].
func (a *Adapter) Edit(ctx context.Context, ref event.MessageRef, c surface.Content) error {
	if err := a.mayWrite(ctx, ref.ChannelID); err != nil {
		return err
	}
	rows := a.buttons(c.Buttons)
	return a.refused.try(ref.ChannelID, editing, func() error {
		return a.write(ctx, rest.UpdateMessage.Compile(nil, ref.ChannelID, ref.MessageID), outgoing{Content: &c.Text, Components: &rows}, c.PingUsers, nil, 0, nil)
	})
}

// Delete implements [surface.Adapter].
func (a *Adapter) Delete(ctx context.Context, ref event.MessageRef) error {
	if err := a.mayWrite(ctx, ref.ChannelID); err != nil {
		return err
	}
	return a.api.do(ctx, rest.DeleteMessage.Compile(nil, ref.ChannelID, ref.MessageID), nil, nil)
}

// Typing implements [surface.Adapter].
func (a *Adapter) Typing(ctx context.Context, channelID string) error {
	if err := a.mayWrite(ctx, channelID); err != nil {
		return err
	}
	return a.refused.try(channelID, aText|typing, func() error {
		return a.api.do(ctx, rest.SendTyping.Compile(nil, channelID), nil, nil)
	})
}

// mayWrite refuses channels that the configuration does not allow.
func (a *Adapter) mayWrite(ctx context.Context, channelID string) error {
	if !snowflake(channelID) {
		return fault.New(fault.Invalid, "%q is not a channel of Discord.", channelID)
	}
	return a.opened(ctx, channelID, "The configuration does not let the bot write to the channel %s. Add it, or its server, to surface.discord.allowedChannelIds or allowedGuildIds.")
}

func (a *Adapter) files(ctx context.Context, files []surface.File) (out []*discord.File, err error) {
	size := 0
	for _, f := range files {
		data := f.Data
		if data == nil && f.Blob != "" {
			if data, err = a.o.Blobs.Get(ctx, f.Blob); err != nil {
				return nil, err
			}
		}
		if len(data) > maxFileBytes {
			return nil, fault.New(fault.TooLarge, "A file on Discord has at most %d bytes.", maxFileBytes)
		}
		if size += len(data); size > maxMessageBytes {
			return nil, fault.New(fault.TooLarge, "The files of a message on Discord have at most %d bytes together.", maxMessageBytes)
		}
		out = append(out, discord.NewFile(filename(a.o.Scrub(f.Name)), "", bytes.NewReader(data)))
	}
	return out, nil
}

// filename is a name that cannot break out of the header it stands in.
func filename(name string) string {
	name = strings.Map(func(r rune) rune {
		if r == '"' || r == '\\' || r == '/' || !unicode.IsPrint(r) {
			return '_'
		}
		return r
	}, name)
	if r := []rune(name); len(r) > maxFilename {
		name = string(r[len(r)-maxFilename:])
	}
	if strings.Trim(name, ". ") == "" {
		return "file"
	}
	return name
}

// The types of components and the styles of buttons ("Component Reference",
// component types, button styles).
const (
	componentRow    = 1
	componentButton = 2
	styleSecondary  = 2
	styleDanger     = 4
)

func (a *Adapter) buttons(buttons []surface.Button) []wireActionRow {
	rows := []wireActionRow{}
	for i, b := range buttons {
		if i%maxButtons == 0 && len(rows) < maxButtons {
			rows = append(rows, wireActionRow{Type: componentRow})
		}
		if len(b.ID) > maxButton && strings.HasPrefix(b.ID, stopPrefix) {
			b.ID = stopPrefix
		}
		style := styleSecondary
		if b.Danger {
			style = styleDanger
		}
		if row := &rows[len(rows)-1]; len(row.Components) < maxButtons && b.ID != "" && len(b.ID) <= maxButton {
			row.Components = append(row.Components, wireButton{Type: componentButton, Style: style, Label: text.TruncateRunes(a.o.Scrub(b.Label), maxLabel), ID: b.ID})
		}
	}
	return slices.DeleteFunc(rows, func(r wireActionRow) bool { return len(r.Components) == 0 })
}
