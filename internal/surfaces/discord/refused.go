package discord

import (
	"errors"
	"sync"
	"time"

	"lilac/internal/core/surface"
	"lilac/internal/foundation/fault"
)

const (
	// refusedFor is how long nothing is tried again that Discord has refused for
	// want of a permission, unless permissions change before: whoever asks again
	// and again where we may not answer must not use up what Discord bears of
	// refused requests (maxInvalid), which are counted for all channels.
	refusedFor = 2 * time.Minute
	// maxRefused bounds what is remembered of refusals.
	maxRefused = 1_000
)

// needs are what takes permissions in a channel. They add up: where a text is
// refused, a reply is, too.
type needs uint8

const (
	aText needs = 1 << iota
	aReply
	aFile
	typing
	editing
	allNeeds = 1<<iota - 1
)

// needsOf is what a message needs.
func needsOf(s surface.Send) needs {
	n := aText
	if s.ReplyTo != "" {
		n |= aReply
	}
	if len(s.Files) > 0 {
		n |= aFile
	}
	return n
}

// refusals remembers what was refused for want of a permission.
type refusals struct {
	mu    sync.Mutex
	known map[attempt]rebuff
	// changes counts how often permissions may have changed.
	changes int
}

type attempt struct {
	channelID string
	needs     needs
}

// rebuff is an answer of Discord and when it came.
type rebuff struct {
	err error
	at  time.Time
}

// try makes a call, unless what needs no more than it was refused a moment ago.
func (r *refusals) try(channelID string, n needs, call func() error) error {
	changes, err := r.recall(channelID, n)
	if err != nil {
		return err
	}
	err = call()
	var f *fault.Error
	if errors.As(err, &f) && f.Kind == fault.Denied && (f.Code == codeNoAccess || f.Code == codeNoPermission) {
		r.remember(attempt{channelID, n}, rebuff{err, time.Now()}, changes)
	}
	return err
}

func (r *refusals) recall(channelID string, n needs) (changes int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for less := aText; less <= allNeeds; less++ {
		if known, there := r.known[attempt{channelID, less}]; less&n == less && there && time.Since(known.at) < refusedFor {
			return r.changes, known.err
		}
	}
	return r.changes, nil
}

// remember does nothing when permissions have changed since the call was made.
func (r *refusals) remember(a attempt, l rebuff, changes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if changes != r.changes {
		return
	}
	if len(r.known) >= maxRefused {
		clear(r.known)
	}
	r.known[a] = l
}

// forget takes in that permissions may have changed.
func (r *refusals) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changes++
	clear(r.known)
}
