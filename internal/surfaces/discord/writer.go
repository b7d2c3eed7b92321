package discord

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf16"

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

	// maxButtons is both the number of rows of a message and of buttons in a row
	// ("Component Reference", legacy message component behavior; action row).
	maxButtons  = 5
	maxLabel    = 80  // "Component Reference", button: label
	maxCustomID = 100 // the same: custom_id

	// maxFileBytes is the limit of a server with few boosts ("API Reference",
	// uploading files). maxMessageBytes is the limit of all files of a message
	// ("Message Resource", create message: limitations), less the other parts; it is
	// lower than the limit of one file in the other servers.
	maxFileBytes    = 10 << 20
	maxMessageBytes = 25<<20 - 64<<10
	// maxFilename keeps file names readable.
	maxFilename = 200
	// maxNonces bounds how many nonces are remembered.
	maxNonces = 10_000
)

// outgoing is the body of every message that the bot creates or edits.
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

// interactionResponse wraps a message as the response to an interaction.
type interactionResponse struct {
	Type int      `json:"type"`
	Data outgoing `json:"data"`
}

// nonces remembers the nonces that this process sent. It is safe for concurrent
// use.
type nonces struct {
	mu   sync.Mutex
	sent map[string]bool
}

func newNonces() *nonces { return &nonces{sent: map[string]bool{}} }

// add is called before the message is sent, so that the gateway's event about it
// is recognized.
func (n *nonces) add(nonce string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.sent) >= maxNonces {
		clear(n.sent) // the outbox knows them too
	}
	n.sent[nonce] = true
}

func (n *nonces) has(nonce string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return nonce != "" && n.sent[nonce]
}

// writer creates, changes, and deletes messages and reactions of the bot.
type writer struct {
	o         Options
	client    *client
	directory *directory
	convert   converter
	refused   *refusals
	sent      *nonces
}

// delivery is a call of write. The zero values of the optional fields send no
// pings and no files.
type delivery struct {
	call  call
	body  outgoing
	pings []string
	files []upload
	// interaction, if not 0, wraps the message as a response of this type.
	interaction int
	// result receives Discord's response; it may be nil.
	result any
}

// write is the only function that sends messages to Discord. Whatever its
// caller built, it notifies only the named people, removes secrets, and refuses
// what Discord would refuse.
func (w *writer) write(ctx context.Context, d delivery) error {
	d.body.Mentions = allowedMentions{Parse: []string{}, Users: validPings(d.pings)}
	if d.body.Content != nil {
		content := w.o.Scrub(*d.body.Content)
		d.body.Content = &content
		if utf16Length(content) > maxText {
			return fault.New(fault.TooLarge, "A message on Discord has at most %d characters.", maxText)
		}
		if strings.TrimSpace(content) == "" && len(d.files) == 0 && d.call.route.method == http.MethodPost && d.interaction == 0 {
			return fault.New(fault.Invalid, "A message on Discord needs text or a file.")
		}
	}
	if d.call.route.method == http.MethodPost && d.interaction == 0 && !w.o.LinkPreviews() {
		d.body.Flags |= flagSuppressEmbeds // edits keep it
	}
	if len(d.files) > maxFiles {
		return fault.New(fault.TooLarge, "A message on Discord has at most %d files.", maxFiles)
	}
	if len(d.body.Nonce) > maxNonce {
		return fault.New(fault.Invalid, "A nonce on Discord has at most %d characters.", maxNonce)
	}
	var body any = d.body
	if d.interaction != 0 {
		body = interactionResponse{Type: d.interaction, Data: d.body}
	}
	return w.client.do(ctx, d.call, body, d.files, d.result)
}

// validPings returns the distinct user ids that a message may notify.
func validPings(pings []string) []string {
	out := []string{}
	for _, id := range pings {
		if isSnowflake(id) && len(out) < maxPings && !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}

// utf16Length returns the length of a text as Discord counts it.
func utf16Length(s string) int { return len(utf16.Encode([]rune(s))) }

func (w *writer) send(ctx context.Context, s surface.Send) (surface.Message, error) {
	if err := w.directory.requireWritable(ctx, s.ChannelID); err != nil {
		return surface.Message{}, err
	}
	files, err := w.loadFiles(ctx, s)
	if err != nil {
		return surface.Message{}, err
	}
	body := outgoing{Content: &s.Text, Nonce: s.Nonce, EnforceNonce: s.Nonce != ""}
	if rows := w.buttonRows(s.Buttons); len(rows) > 0 {
		body.Components = &rows
	}
	if s.ReplyTo != "" {
		body.Reference = &outReference{MessageID: s.ReplyTo}
	}
	w.sent.add(s.Nonce)
	var created wireMessage
	post := func() error {
		return w.refused.try(s.ChannelID, capabilitiesFor(s), func() error {
			return w.write(ctx, delivery{call: createMessage.with(s.ChannelID), body: body, pings: s.PingUsers, files: files, result: &created})
		})
	}
	err = post()
	var f *fault.Error
	if errors.As(err, &f) && (f.Code == codeNoHistory || f.Code == codeNoReply) && s.ReplyTo != "" {
		// A reply needs Read Message History; a message without the reference does
		// not ("Message Resource", create message: limitations). Nobody can reply to a
		// system message, which people may ask about.
		s.ReplyTo, body.Reference = "", nil
		err = post()
	}
	if err != nil {
		return surface.Message{}, err
	}
	if created.ID == "" {
		return surface.Message{}, fault.New(fault.Timeout, "Discord's response names no message, so it is unknown whether the message was sent.")
	}
	created.ChannelID = s.ChannelID
	return w.convert.message(created), nil
}

// tell sends a user a private message.
func (w *writer) tell(ctx context.Context, userID, content, nonce string) error {
	if !isSnowflake(userID) {
		return fault.New(fault.Invalid, "%q is not a Discord user id.", userID)
	}
	var direct wireChannel
	if err := w.client.do(ctx, createDM.with(), map[string]string{"recipient_id": userID}, nil, &direct); err != nil {
		return err
	}
	content, nonce = truncateUTF16(content, maxText), text.TruncateRunes(nonce, maxNonce)
	w.sent.add(nonce)
	return w.write(ctx, delivery{call: createMessage.with(direct.ID), body: outgoing{Content: &content, Nonce: nonce, EnforceNonce: nonce != ""}})
}

func (w *writer) edit(ctx context.Context, ref event.MessageRef, c surface.Content) error {
	if err := w.directory.requireWritable(ctx, ref.ChannelID); err != nil {
		return err
	}
	rows := w.buttonRows(c.Buttons)
	return w.refused.try(ref.ChannelID, editText, func() error {
		return w.write(ctx, delivery{call: editMessage.with(ref.ChannelID, ref.MessageID), body: outgoing{Content: &c.Text, Components: &rows}, pings: c.PingUsers})
	})
}

func (w *writer) delete(ctx context.Context, ref event.MessageRef) error {
	if err := w.directory.requireWritable(ctx, ref.ChannelID); err != nil {
		return err
	}
	return w.client.do(ctx, deleteMessage.with(ref.ChannelID, ref.MessageID), nil, nil, nil)
}

func (w *writer) typing(ctx context.Context, channelID string) error {
	if err := w.directory.requireWritable(ctx, channelID); err != nil {
		return err
	}
	return w.refused.try(channelID, sendText|showTyping, func() error {
		return w.client.do(ctx, triggerTyping.with(channelID), nil, nil, nil)
	})
}

// react adds or removes a reaction of the bot.
func (w *writer) react(ctx context.Context, r *route, ref event.MessageRef, emoji string) error {
	if emoji == "" {
		return fault.New(fault.Invalid, "A reaction needs an emoji.")
	}
	if err := w.directory.requireWritable(ctx, ref.ChannelID); err != nil {
		return err
	}
	return w.client.do(ctx, r.with(ref.ChannelID, ref.MessageID, emoji), nil, nil, nil)
}

func (w *writer) loadFiles(ctx context.Context, s surface.Send) (out []upload, err error) {
	size := 0
	most, _ := w.directory.maxFileBytes(s.ChannelID)
	for _, f := range s.Files {
		data := f.Data
		if data == nil && f.Blob != "" {
			if data, err = w.o.Blobs.Get(ctx, f.Blob); err != nil {
				return nil, err
			}
		}
		if int64(len(data)) > most {
			return nil, fault.New(fault.TooLarge, "A file on Discord has at most %d bytes here.", most)
		}
		if size += len(data); size > maxMessageBytes {
			return nil, fault.New(fault.TooLarge, "The files of a message on Discord have at most %d bytes together.", maxMessageBytes)
		}
		out = append(out, upload{name: safeFilename(w.o.Scrub(f.Name)), data: data})
	}
	return out, nil
}

// safeFilename returns a name that cannot break out of its header line.
func safeFilename(name string) string {
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

// Component types and button styles ("Component Reference").
const (
	componentRow    = 1
	componentButton = 2
	styleSecondary  = 2
	styleDanger     = 4
)

func (w *writer) buttonRows(buttons []surface.Button) []wireActionRow {
	rows := []wireActionRow{}
	for i, b := range buttons {
		if i%maxButtons == 0 && len(rows) < maxButtons {
			rows = append(rows, wireActionRow{Type: componentRow})
		}
		if len(b.ID) > maxCustomID && strings.HasPrefix(b.ID, stopPrefix) {
			b.ID = stopPrefix
		}
		if pause, answer, _, ok := surface.ParseAnswerButton(b.ID); ok && len(b.ID) > maxCustomID {
			b.ID = surface.AnswerButton(pause, answer, "")
		}
		style := styleSecondary
		if b.Danger {
			style = styleDanger
		}
		if row := &rows[len(rows)-1]; len(row.Components) < maxButtons && b.ID != "" && len(b.ID) <= maxCustomID {
			row.Components = append(row.Components, wireButton{Type: componentButton, Style: style, Label: text.TruncateRunes(w.o.Scrub(b.Label), maxLabel), ID: b.ID})
		}
	}
	return slices.DeleteFunc(rows, func(r wireActionRow) bool { return len(r.Components) == 0 })
}
