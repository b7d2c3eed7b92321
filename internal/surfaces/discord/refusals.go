package discord

import (
	"errors"
	"sync"
	"time"

	"lilac/internal/core/surface"
	"lilac/internal/foundation/fault"
)

const (
	// refusalTTL is how long a call that Discord refused for a missing permission
	// is answered from memory, unless permissions change before. Refused requests
	// count toward maxInvalid, which is shared by all channels, so people who ask
	// again and again in one channel must not silence the bot in the others.
	refusalTTL = 2 * time.Minute
	// maxRefusals bounds how many refusals are remembered.
	maxRefusals = 1_000
)

// capability is a set of the things that need permissions in a channel. A
// refusal of a set also applies to its supersets: where text is refused, a reply
// is refused too.
type capability uint8

const (
	sendText capability = 1 << iota
	sendReply
	sendFile
	showTyping
	editText
	allCapabilities = 1<<iota - 1
)

// capabilitiesFor returns what a message needs.
func capabilitiesFor(s surface.Send) capability {
	c := sendText
	if s.ReplyTo != "" {
		c |= sendReply
	}
	if len(s.Files) > 0 {
		c |= sendFile
	}
	return c
}

// refusals remembers calls that were refused for a missing permission. It is
// safe for concurrent use.
type refusals struct {
	mu    sync.Mutex
	known map[attempt]refusal
	// generation increases whenever permissions may have changed.
	generation int
}

type attempt struct {
	channelID string
	needs     capability
}

type refusal struct {
	err error
	at  time.Time
}

func newRefusals() *refusals { return &refusals{known: map[attempt]refusal{}} }

// try makes a call unless a call that needs no more was refused recently.
func (r *refusals) try(channelID string, needs capability, call func() error) error {
	generation, err := r.recall(channelID, needs)
	if err != nil {
		return err
	}
	err = call()
	if lacksPermission(err) {
		r.remember(attempt{channelID, needs}, refusal{err, time.Now()}, generation)
	}
	return err
}

// lacksPermission reports whether a call was refused for a missing permission.
func lacksPermission(err error) bool {
	var f *fault.Error
	return errors.As(err, &f) && f.Kind == fault.Denied && (f.Code == codeNoAccess || f.Code == codeNoPermission || f.Code == codeNoHistory)
}

func (r *refusals) recall(channelID string, needs capability) (generation int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for subset := sendText; subset <= allCapabilities; subset++ {
		if known, ok := r.known[attempt{channelID, subset}]; subset&needs == subset && ok && time.Since(known.at) < refusalTTL {
			return r.generation, known.err
		}
	}
	return r.generation, nil
}

// remember does nothing when permissions have changed since the call was made.
func (r *refusals) remember(a attempt, refused refusal, generation int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if generation != r.generation {
		return
	}
	if len(r.known) >= maxRefusals {
		clear(r.known)
	}
	r.known[a] = refused
}

// forget drops everything, because permissions may have changed.
func (r *refusals) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.generation++
	clear(r.known)
}
