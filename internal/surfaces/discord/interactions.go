package discord

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/disgoorg/disgo/rest"
	"golang.org/x/sync/errgroup"

	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
)

const (
	// maxInteractions bounds how many wait to be acknowledged. Discord shows
	// people that one more failed.
	maxInteractions = 64
	// interactionWorkers is how many are answered at a time.
	interactionWorkers = 8
	// acknowledgeLimit and tokenLife are Discord's ("Receiving and Responding",
	// interaction callback): within them it is acknowledged and answered;
	// answerLimit is how long we take for the answer.
	acknowledgeLimit = 3 * time.Second
	answerLimit      = 20 * time.Second
	tokenLife        = 15 * time.Minute

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

	// told is all of it, as Discord said it.
	told json.RawMessage
	// request is what is to be stopped, if the interaction asks for that; said,
	// what is to be said of what was done already.
	request, said string
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
	i.told = data
	select {
	case a.commands <- i:
	default:
		a.o.Logger.WarnContext(ctx, "so many commands and buttons at once that one was left out", "channel_id", i.ChannelID)
	}
}

// answerInteractions answers until ctx ends, beginning with what the last
// process has left.
func (a *Adapter) answerInteractions(ctx context.Context) error {
	left := a.ordersLeft(ctx) // before there are new ones
	var workers errgroup.Group
	workers.Go(func() error {
		for _, i := range left {
			a.takeUp(ctx, i)
		}
		return ctx.Err()
	})
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
// pressed or typed sees the answer. What is acknowledged was written down
// before, so that a crash cannot lose what a person believes to be done; what
// was not, Discord shows as failed, and it can be pressed again. So is what asks
// for words alone: acknowledged and without them, it would show for ever that an
// answer is on its way.
func (a *Adapter) answer(ctx context.Context, i interaction) {
	fresh, err := a.order(ctx, &i)
	if err != nil && ctx.Err() == nil {
		a.o.Logger.WarnContext(ctx, "what a person asked for on Discord cannot be written down", "channel_id", i.ChannelID, "error", err)
	}
	if err != nil || !fresh {
		return
	}
	err = a.acknowledge(ctx, i)
	switch kind := fault.KindOf(err); {
	case ctx.Err() != nil:
		return // the next start goes on
	case err == nil || kind == fault.Timeout: // then it may have been
		a.finish(ctx, i)
		return
	case kind != fault.NotFound: // told again after a reconnection, or too late
		a.o.Logger.WarnContext(ctx, "an interaction of Discord was not acknowledged", "channel_id", i.ChannelID, "error", err)
	}
	a.forget(ctx, i)
}

func (a *Adapter) acknowledge(ctx context.Context, i interaction) error {
	ctx, cancel := context.WithTimeout(ctx, acknowledgeLimit)
	defer cancel()
	return a.write(ctx, rest.CreateInteractionResponse.Compile(nil, i.ID, i.Token), outgoing{Flags: flagEphemeral}, nil, nil, answerLater, nil)
}

// finish does what an acknowledged interaction asks for, and says so.
func (a *Adapter) finish(ctx context.Context, i interaction) {
	within, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	said, do, err := a.obey(within, i)
	if err == nil {
		err = a.settle(within, i, said, do)
	}
	if ctx.Err() != nil {
		return // the next start goes on
	}
	if err != nil {
		said = fault.ToWire(err).Message
		a.o.Logger.WarnContext(ctx, "what a person asked for on Discord was not done", "channel_id", i.ChannelID, "error", err)
		if err := a.settle(ctx, i, said, nil); err != nil {
			a.o.Logger.WarnContext(ctx, "that an order on Discord was refused cannot be written down", "channel_id", i.ChannelID, "error", err)
		}
	}
	a.tell(ctx, i, said)
}

// tell says what came of an interaction, as long as Discord takes that.
func (a *Adapter) tell(ctx context.Context, i interaction, said string) {
	if time.Since(time.UnixMilli(madeAt(i.ID))) < tokenLife {
		said = cutUnits(said, maxText)
		err := a.write(ctx, rest.UpdateInteractionResponse.Compile(nil, i.ApplicationID, i.Token), outgoing{Content: &said}, nil, nil, 0, nil)
		if err != nil {
			a.o.Logger.WarnContext(ctx, "an interaction of Discord was not answered", "channel_id", i.ChannelID, "error", err)
		}
		switch fault.KindOf(err) {
		case fault.Unavailable, fault.Timeout, fault.RateLimited, fault.Cancelled:
			return // the next start tries again
		}
	}
	a.forget(ctx, i)
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

// obey decides what to do about an interaction, nil for nothing, and what to
// say of it when that is done.
func (a *Adapter) obey(ctx context.Context, i interaction) (said string, do func(*db.Tx) error, err error) {
	by, mod := i.who()
	if by.ID == "" {
		return "", nil, fault.New(fault.Invalid, "Discord did not say who you are.")
	}
	if i.GuildID == "" {
		a.channels.put(i.ChannelID, place{kind: surface.Direct, recipient: by.ID, name: by.Name})
	}
	if err := a.mayWrite(ctx, i.ChannelID); err != nil {
		return "", nil, fault.Wrap(fault.Denied, err, "I do not work in this channel.")
	}
	if a.o.Interactions == nil && i.Data.Name != commandHelp {
		return "", nil, fault.New(fault.Unavailable, "I cannot do that now.")
	}
	switch {
	case i.Type == interactionComponent && i.request == "":
		return "", nil, fault.New(fault.Invalid, "I do not know this button any more.")
	case i.Data.Name == commandStop && i.request == "":
		return "Nothing is being worked on here.", nil, nil
	case i.request != "":
		return a.stop(ctx, i.request, by, mod)
	case i.Data.Name == commandHelp:
		return helpText, nil, nil
	case i.Data.Name == commandStatus:
		said, err = a.o.Interactions.Status(ctx, i.ChannelID)
		return said, nil, err
	case i.Data.Name == menuAsk:
		return a.ask(ctx, i, by)
	}
	return "", nil, fault.New(fault.Invalid, "I do not know this command any more.")
}

// stop ends a request for somebody who asked for it, or for a moderator.
func (a *Adapter) stop(ctx context.Context, request string, by surface.User, mod bool) (string, func(*db.Tx) error, error) {
	if !mod {
		askers, err := a.o.Interactions.Askers(ctx, request)
		if err != nil {
			return "", nil, err
		}
		if !slices.Contains(askers, by.ID) {
			return "", nil, fault.New(fault.Denied, "Only who asked, or a moderator, can stop this.")
		}
	}
	return "Stopped.", func(tx *db.Tx) error { return a.o.Interactions.Stop(tx, request, by) }, nil
}

// ask takes the message in that a person chose, and begins a request about it.
func (a *Adapter) ask(ctx context.Context, i interaction, by surface.User) (string, func(*db.Tx) error, error) {
	m, ok := i.Data.Resolved.Messages[i.Data.TargetID]
	if !ok {
		return "", nil, fault.New(fault.Invalid, "Discord did not say which message you mean.")
	}
	m.ChannelID, m.GuildID = i.ChannelID, i.GuildID
	in := a.incoming(ctx, m, false)
	if in == nil {
		return "", nil, fault.New(fault.Invalid, "There is nothing to read in this message.")
	}
	return "I am looking at it.", func(tx *db.Tx) error {
		if err := a.remember(tx, in); err != nil {
			return err
		}
		return a.o.Interactions.Ask(tx, in.m, by)
	}, nil
}
