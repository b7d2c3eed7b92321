package discord

import (
	"context"
	"encoding/json"
	"time"

	"golang.org/x/sync/errgroup"

	"lilac/internal/core/surface"
	"lilac/internal/foundation/fault"
)

const (
	// maxInteractions bounds how many interactions wait for their
	// acknowledgment. Discord shows one more as failed.
	maxInteractions = 64
	// interactionWorkers is how many interactions are handled at a time.
	interactionWorkers = 8
	// acknowledgeTimeout and tokenTTL are Discord's ("Receiving and Responding",
	// interaction callback): an interaction must be acknowledged within three
	// seconds, and its token is valid for fifteen minutes. actionTimeout is
	// Lilac's limit for the action.
	acknowledgeTimeout = 3 * time.Second
	actionTimeout      = 20 * time.Second
	tokenTTL           = 15 * time.Minute

	// stopPrefix begins the id of a Stop button; the request id follows, unless
	// it is too long. Then it is the request of the message with the button.
	stopPrefix = "stop:"
)

// Interaction and callback types ("Receiving and Responding").
const (
	interactionCommand   = 2
	interactionComponent = 3
	interactionTyping    = 4 // autocomplete
	deferredMessage      = 5
	suggestions          = 8
	// moderatorPermissions are the permissions of which one allows stopping
	// other people's requests: administrator, manage channels, manage server,
	// manage messages ("Permissions", bitwise permission flags).
	moderatorPermissions = 1<<3 | 1<<4 | 1<<5 | 1<<13
)

// interaction is a command or a button press.
type interaction struct {
	ID            string      `json:"id"`
	ApplicationID string      `json:"application_id"`
	Token         string      `json:"token"`
	Type          int         `json:"type"`
	ChannelID     string      `json:"channel_id"`
	GuildID       string      `json:"guild_id"`
	Member        *wireMember `json:"member"`
	User          *wireUser   `json:"user"`
	// Message is the message with the button.
	Message struct {
		ID string `json:"id"`
	} `json:"message"`
	Data struct {
		Name     string `json:"name"`
		CustomID string `json:"custom_id"`
		TargetID string `json:"target_id"`
		Options  []struct {
			Name  string          `json:"name"`
			Value json.RawMessage `json:"value"`
		} `json:"options"`
		Resolved struct {
			Messages map[string]wireMessage `json:"messages"`
		} `json:"resolved"`
	} `json:"data"`

	// payload is the interaction as Discord sent it.
	payload json.RawMessage
	// requestID is the request to stop, "" for none; reply is the text to show
	// for an action that is already done.
	requestID, reply string
}

// option returns the value of a text parameter of a command, "" for none.
func (i interaction) option(name string) (value string) {
	for _, o := range i.Data.Options {
		if o.Name == name {
			_ = json.Unmarshal(o.Value, &value) // another type counts as absent
		}
	}
	return value
}

// person returns the author of the interaction and whether they are a moderator
// of the channel.
func (i interaction) person() (u surface.User, moderator bool) {
	from := i.User
	if i.Member != nil {
		moderator = permissionBits(i.Member.Permissions)&moderatorPermissions != 0
		if i.Member.User != nil {
			from = i.Member.User
		}
	}
	if from == nil {
		return u, false
	}
	u = surface.User{ID: from.ID, Name: from.name(i.Member), Bot: from.Bot}
	if i.Member != nil {
		u.Roles = i.Member.Roles
	}
	return u, moderator
}

// interactions acknowledges commands and button presses, carries them out, and
// shows the result. An interaction is stored before it is acknowledged, so a
// crash cannot lose an action that a person believes to be done; one that was
// not acknowledged is shown as failed and can be repeated.
type interactions struct {
	o         Options
	directory *directory
	recorder  *recorder
	writer    *writer
	queue     chan interaction
}

func newInteractions(o Options, d *directory, r *recorder, w *writer) *interactions {
	return &interactions{o: o, directory: d, recorder: r, writer: w, queue: make(chan interaction, maxInteractions)}
}

// receive queues an interaction. It never blocks.
func (s *interactions) receive(ctx context.Context, data json.RawMessage) {
	var i interaction
	if _, err := decodeLenient(data, &i); err != nil || i.ID == "" || i.Token == "" {
		s.o.Logger.WarnContext(ctx, "cannot decode a Discord interaction", "error", err)
		return
	}
	if i.Type != interactionCommand && i.Type != interactionComponent && i.Type != interactionTyping {
		return
	}
	i.payload = data
	select {
	case s.queue <- i:
	default:
		s.o.Logger.WarnContext(ctx, "too many commands and button presses at once; one is dropped", "channel_id", i.ChannelID)
	}
}

// run handles interactions until ctx ends, beginning with those that the last
// process did not finish.
func (s *interactions) run(ctx context.Context) error {
	unfinished := s.unfinished(ctx) // before new ones are stored
	var workers errgroup.Group
	workers.Go(func() error {
		for _, i := range unfinished {
			s.resume(ctx, i)
		}
		return ctx.Err()
	})
	for range interactionWorkers {
		workers.Go(func() error {
			for {
				select {
				case <-ctx.Done():
					return ctx.Err()
				case i := <-s.queue:
					if i.Type == interactionTyping {
						s.suggest(ctx, i)
						continue
					}
					s.handle(ctx, i)
				}
			}
		})
	}
	return workers.Wait()
}

// handle stores and acknowledges an interaction, and carries it out. An
// interaction that could not be acknowledged is not carried out; this also
// covers commands that only show text, which would otherwise show forever that
// an answer is on its way.
func (s *interactions) handle(ctx context.Context, i interaction) {
	fresh, err := s.save(ctx, &i)
	if err != nil && ctx.Err() == nil {
		s.o.Logger.WarnContext(ctx, "cannot store a Discord interaction", "channel_id", i.ChannelID, "error", err)
	}
	if err != nil || !fresh {
		return
	}
	err = s.acknowledge(ctx, i)
	switch kind := fault.KindOf(err); {
	case ctx.Err() != nil:
		return // the next start resumes it
	case err == nil || kind == fault.Timeout: // Discord may have received it
		s.finish(ctx, i)
		return
	case kind != fault.NotFound: // replayed after a reconnection, or too late
		s.o.Logger.WarnContext(ctx, "cannot acknowledge a Discord interaction", "channel_id", i.ChannelID, "error", err)
	}
	s.remove(ctx, i)
}

func (s *interactions) acknowledge(ctx context.Context, i interaction) error {
	ctx, cancel := context.WithTimeout(ctx, acknowledgeTimeout)
	defer cancel()
	return s.writer.write(ctx, delivery{call: createInteractionResponse.with(i.ID, i.Token), body: outgoing{Flags: flagEphemeral}, interaction: deferredMessage})
}

// finish carries out an acknowledged interaction and shows the result.
func (s *interactions) finish(ctx context.Context, i interaction) {
	within, cancel := context.WithTimeout(ctx, actionTimeout)
	defer cancel()
	reply, action, err := s.plan(within, i)
	if err == nil {
		err = s.commit(within, i, reply, action)
	}
	if ctx.Err() != nil {
		return // the next start resumes it
	}
	if err != nil {
		reply = fault.ToWire(err).Message
		s.o.Logger.WarnContext(ctx, "cannot carry out a Discord interaction", "channel_id", i.ChannelID, "error", err)
		if err := s.commit(ctx, i, reply, nil); err != nil {
			s.o.Logger.WarnContext(ctx, "cannot store that a Discord interaction failed", "channel_id", i.ChannelID, "error", err)
		}
	}
	s.show(ctx, i, reply)
}

// show replies to an interaction while its token is valid.
func (s *interactions) show(ctx context.Context, i interaction, reply string) {
	if time.Since(time.UnixMilli(createdAt(i.ID))) < tokenTTL {
		reply = truncateUTF16(reply, maxText)
		err := s.writer.write(ctx, delivery{call: editOriginalInteractionResponse.with(i.ApplicationID, i.Token), body: outgoing{Content: &reply}})
		if err != nil {
			s.o.Logger.WarnContext(ctx, "cannot reply to a Discord interaction", "channel_id", i.ChannelID, "error", err)
		}
		switch fault.KindOf(err) {
		case fault.Unavailable, fault.Timeout, fault.RateLimited, fault.Cancelled:
			return // the next start retries it
		}
	}
	s.remove(ctx, i)
}

// truncateUTF16 shortens a text to n UTF-16 units.
func truncateUTF16(s string, n int) string {
	for utf16Length(s) > n {
		r := []rune(s)
		s = string(r[:len(r)-1-(utf16Length(s)-n)/2])
	}
	return s
}
