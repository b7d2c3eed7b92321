package discord

import (
	"context"
	"sync"
	"time"

	"lilac/internal/core/surface"
	"lilac/internal/foundation/fault"
)

const (
	// starterRetry is how long a thread whose starter cannot be read is left alone.
	starterRetry = 10 * time.Minute
	// maxStarters bounds how many such threads are remembered.
	maxStarters = 10_000
)

// starters remembers the threads whose starter could not be read: most threads
// without one were created without a message. It is safe for concurrent use.
type starters struct {
	mu      sync.Mutex
	missing map[string]time.Time
}

func newStarters() *starters { return &starters{missing: map[string]time.Time{}} }

func (s *starters) isMissing(threadID string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok := s.missing[threadID]
	return ok && time.Since(at) < starterRetry
}

func (s *starters) setMissing(threadID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.missing) >= maxStarters {
		clear(s.missing)
	}
	s.missing[threadID] = time.Now()
}

// completeThread fetches the message that started the thread of a message if the
// cache lacks it, so that the model can be shown what the thread is about.
func (r *recorder) completeThread(ctx context.Context, in *incoming, received time.Time) {
	thread, parent := in.m.ChannelID, in.channel.parentID
	if in.channel.kind != surface.Thread || in.m.ID == thread || r.starters.isMissing(thread) {
		return
	}
	for _, channelID := range []string{thread, parent} {
		if _, err := r.history.cached(ctx, channelID, thread); err == nil {
			return
		}
	}
	ctx, cancel := context.WithTimeout(ctx, chainTimeout)
	defer cancel()
	found, err := r.history.starter(ctx, thread, parent)
	if err != nil {
		r.starters.setMissing(thread)
		if fault.KindOf(err) != fault.NotFound {
			r.o.Logger.WarnContext(ctx, "cannot read the message that started a thread", "channel_id", thread, "error", err)
		}
		return
	}
	starter := r.convert.message(found)
	starter.Attachments = r.attachments.download(ctx, starter, received)
	in.ancestors = append(in.ancestors, starter)
}

// starter reads the message that started a thread. It has the thread's id. In a
// forum it is in the thread itself, otherwise in the channel of the thread
// ("Threads", creating threads in forum and media channels; "Message Resource",
// message types). Whoever may read the thread sees it there, so it may be read
// even if the configuration does not allow the channel.
func (h *history) starter(ctx context.Context, threadID, parentID string) (m wireMessage, err error) {
	for _, channelID := range []string{threadID, parentID} {
		if !isSnowflake(channelID) || !isSnowflake(threadID) {
			return m, fault.New(fault.NotFound, "The thread has no starter.")
		}
		err = h.client.get(ctx, getChannelMessage.with(channelID, threadID), &m)
		if m.ChannelID = channelID; fault.KindOf(err) != fault.NotFound {
			return m, err
		}
	}
	return m, err
}
