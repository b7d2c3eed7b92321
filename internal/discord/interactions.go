package discord

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/disgoorg/disgo/rest"
	"golang.org/x/sync/errgroup"

	"lilac/internal/db"
	"lilac/internal/fault"
	"lilac/internal/surface"
)

const (
	// maxInteractions bounds how many wait to be acknowledged. Discord shows
	// people that one more failed.
	maxInteractions = 64
	// interactionWorkers is how many are answered at a time.
	interactionWorkers = 8
	// acknowledgeLimit is Discord's ("Receiving and Responding", interaction
	// callback); answerLimit is how long we take after it, where Discord gives a
	// quarter of an hour.
	acknowledgeLimit = 3 * time.Second
	answerLimit      = 20 * time.Second

	// stopPrefix begins the id of a Stop button; the request's id follows, unless
	// it is too long: then it is the request that the message shows.
	stopPrefix = "stop:"
)

// The types of interactions and answers ("Receiving and Responding",
// interaction type, interaction callback type).
const (
	interactionCommand   = 2
	interactionComponent = 3
	answerLater          = 5
	// moderator are the permissions of which one lets stop what others asked:
	// administrator, manage channels, manage server, manage messages
	// ("Permissions", bitwise permission flags).
	moderator = 1<<3 | 1<<4 | 1<<5 | 1<<13
)

type interaction struct {
	ID            string      `json:"id"`
	ApplicationID string      `json:"application_id"`
	Token         string      `json:"token"`
	Type          int         `json:"type"`
	ChannelID     string      `json:"channel_id"`
	GuildID       string      `json:"guild_id"`
	Member        *wireMember `json:"member"`
	User          *wireUser   `json:"user"`
	// Message is the one with the button.
	Message struct {
		ID string `json:"id"`
	} `json:"message"`
	Data struct {
		Name     string `json:"name"`
		CustomID string `json:"custom_id"`
		TargetID string `json:"target_id"`
		Resolved struct {
			Messages map[string]wireMessage `json:"messages"`
		} `json:"resolved"`
	} `json:"data"`
}

// who is the person, and whether it is a moderator there.
func (i interaction) who() (u surface.User, mod bool) {
	from := i.User
	if i.Member != nil {
		mod = permissionBits(i.Member.Permissions)&moderator != 0
		if i.Member.User != nil {
			from = i.Member.User
		}
	}
	if from == nil {
		return u, false
	}
	return surface.User{ID: from.ID, Name: from.name(i.Member), Bot: from.Bot}, mod
}

// interact hands an interaction to those who answer.
func (a *Adapter) interact(ctx context.Context, data json.RawMessage) {
	var i interaction
	if err := json.Unmarshal(data, &i); err != nil || i.ID == "" || i.Token == "" {
		a.o.Logger.WarnContext(ctx, "an interaction of Discord cannot be read", "error", err)
		return
	}
	if i.Type != interactionCommand && i.Type != interactionComponent {
		return
	}
	select {
	case a.commands <- i:
	default:
		a.o.Logger.WarnContext(ctx, "so many commands and buttons at once that one was left out", "channel_id", i.ChannelID)
	}
}

// answerInteractions answers until ctx ends.
func (a *Adapter) answerInteractions(ctx context.Context) error {
	var workers errgroup.Group
	for range interactionWorkers {
		workers.Go(func() error {
			for {
				select {
				case <-ctx.Done():
					return ctx.Err()
				case i := <-a.commands:
					a.answer(ctx, i)
				}
			}
		})
	}
	return workers.Wait()
}

// answer acknowledges an interaction and then does what it asks for. Only who
// pressed or typed sees the answer.
func (a *Adapter) answer(ctx context.Context, i interaction) {
	within, cancel := context.WithTimeout(ctx, acknowledgeLimit)
	err := a.write(within, rest.CreateInteractionResponse.Compile(nil, i.ID, i.Token), outgoing{Flags: flagEphemeral}, nil, nil, answerLater, nil)
	cancel()
	if err != nil {
		if fault.KindOf(err) != fault.NotFound { // told again after a reconnection
			a.o.Logger.WarnContext(ctx, "an interaction of Discord was not acknowledged", "channel_id", i.ChannelID, "error", err)
		}
		return
	}
	within, cancel = context.WithTimeout(ctx, answerLimit)
	defer cancel()
	said, err := a.obey(within, i)
	if err != nil {
		said = fault.ToWire(err).Message
		a.o.Logger.WarnContext(ctx, "what a person asked for on Discord was not done", "channel_id", i.ChannelID, "error", err)
	}
	said = cutUnits(said, maxText)
	err = a.write(within, rest.UpdateInteractionResponse.Compile(nil, i.ApplicationID, i.Token), outgoing{Content: &said}, nil, nil, 0, nil)
	if err != nil {
		a.o.Logger.WarnContext(ctx, "an interaction of Discord was not answered", "channel_id", i.ChannelID, "error", err)
	}
}

// cutUnits shortens a text to what a message holds.
func cutUnits(s string, n int) string {
	for units(s) > n {
		r := []rune(s)
		s = string(r[:len(r)-1-(units(s)-n)/2])
	}
	return s
}

const helpText = "Mention me, reply to me, or write to me privately, and I answer. While I work, reply to my answer to add something; reply and mention me to change its course. " +
	"The Stop button or /stop ends it, /status says what I am doing. In the menu of a message, Apps, “Ask about this” asks me about it."

// obey does what an interaction asks for and says so.
func (a *Adapter) obey(ctx context.Context, i interaction) (string, error) {
	by, mod := i.who()
	if by.ID == "" {
		return "", fault.New(fault.Invalid, "Discord did not say who you are.")
	}
	if i.GuildID == "" {
		a.channels.put(i.ChannelID, place{kind: surface.Direct, recipient: by.ID, name: by.Name})
	}
	if err := a.mayWrite(ctx, i.ChannelID); err != nil {
		return "", fault.Wrap(fault.Denied, err, "I do not work in this channel.")
	}
	if i.Type == interactionComponent {
		request, is := strings.CutPrefix(i.Data.CustomID, stopPrefix)
		if request == "" {
			shown, err := a.cached(ctx, i.ChannelID, i.Message.ID)
			if err != nil && fault.KindOf(err) != fault.NotFound {
				return "", err
			}
			request = shown.RequestID
		}
		if !is || request == "" {
			return "", fault.New(fault.Invalid, "I do not know this button any more.")
		}
		return a.stop(ctx, request, by, mod)
	}
	if i.Data.Name == commandHelp {
		return helpText, nil
	}
	if a.o.Interactions == nil {
		return "", fault.New(fault.Unavailable, "I cannot do that now.")
	}
	switch i.Data.Name {
	case commandStatus:
		return a.o.Interactions.Status(ctx, i.ChannelID)
	case commandStop:
		request, err := a.o.Interactions.Running(ctx, i.ChannelID)
		if err != nil {
			return "", err
		}
		if request == "" {
			return "Nothing is being worked on here.", nil
		}
		return a.stop(ctx, request, by, mod)
	case menuAsk:
		return a.ask(ctx, i, by)
	}
	return "", fault.New(fault.Invalid, "I do not know this command any more.")
}

// stop ends a request for somebody who asked for it, or for a moderator.
func (a *Adapter) stop(ctx context.Context, request string, by surface.User, mod bool) (string, error) {
	if a.o.Interactions == nil {
		return "", fault.New(fault.Unavailable, "I cannot do that now.")
	}
	if !mod {
		askers, err := a.o.Interactions.Askers(ctx, request)
		if err != nil {
			return "", err
		}
		if !slices.Contains(askers, by.ID) {
			return "", fault.New(fault.Denied, "Only who asked, or a moderator, can stop this.")
		}
	}
	if err := a.o.Interactions.Stop(ctx, request, by); err != nil {
		return "", err
	}
	return "Stopped.", nil
}

// ask takes the message in that a person chose, and begins a request about it.
func (a *Adapter) ask(ctx context.Context, i interaction, by surface.User) (string, error) {
	m, ok := i.Data.Resolved.Messages[i.Data.TargetID]
	if !ok {
		return "", fault.New(fault.Invalid, "Discord did not say which message you mean.")
	}
	m.ChannelID, m.GuildID = i.ChannelID, i.GuildID
	in := a.incoming(ctx, m, false)
	if in == nil {
		return "", fault.New(fault.Invalid, "There is nothing to read in this message.")
	}
	if err := a.o.DB.Update(ctx, func(tx *db.Tx) error { return a.remember(tx, in) }); err != nil {
		return "", err
	}
	if err := a.o.Interactions.Ask(ctx, in.m, by); err != nil {
		return "", err
	}
	return "I am looking at it.", nil
}
