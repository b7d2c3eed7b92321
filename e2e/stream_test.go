package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"lilac/internal/testkit/e2e"
)

// A reader reads the event stream of a session, or of all, as the page does.
type reader struct {
	mu    sync.Mutex
	texts map[string]string
	over  map[string]bool
	wrong []string
}

func follow(t *testing.T, s *e2e.Server, session string) *reader {
	only := ""
	if session != "" {
		only = "&session_id=" + session
	}
	r := &reader{texts: map[string]string{}, over: map[string]bool{}}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		cursor := ""
		for ctx.Err() == nil {
			_ = s.Stream(ctx, "from=begin"+only, cursor, func(f e2e.Frame) {
				cursor = f.ID
				r.frame(f)
			})
			time.Sleep(20 * time.Millisecond) // the server does not answer; reconnect, as a browser does
		}
	}()
	t.Cleanup(func() {
		stop()
		<-done
	})
	return r
}

func (r *reader) frame(f e2e.Frame) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var p struct {
		RequestID string `json:"requestId"`
		Content   string `json:"content"`
		Offset    int    `json:"offset"`
	}
	if json.Unmarshal(f.Data.Payload, &p) != nil {
		return
	}
	text := r.texts[p.RequestID]
	switch f.Event {
	case "stream.text":
		if p.Offset > len(text) {
			r.wrong = append(r.wrong, fmt.Sprintf("text at %d, but %d bytes had come", p.Offset, len(text)))
			return
		}
		r.texts[p.RequestID] = text[:p.Offset] + p.Content
	case "stream.completed":
		if r.over[p.RequestID] {
			r.wrong = append(r.wrong, p.RequestID+" was completed twice")
		}
		r.over[p.RequestID] = true
	}
}

// followed is how many of the first requests a stream of all sessions is certain to show word by
// word. It follows 64 requests at a time.
const followed = 50

// missed returns the problems with the event stream of the first fifty requests, which should all
// have the answer want.
func (r *reader) missed(all []e2e.Accepted, want string, within time.Duration) []string {
	all = all[:min(len(all), followed)]
	e2e.Poll(within, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return !slices.ContainsFunc(all, func(a e2e.Accepted) bool { return !r.over[a.RequestID] })
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	wrong := slices.Clone(r.wrong)
	for _, a := range all {
		if text := r.texts[a.RequestID]; !r.over[a.RequestID] || text != want {
			wrong = append(wrong, fmt.Sprintf("the event stream showed %q of %s, over: %v", text, a.RequestID, r.over[a.RequestID]))
		}
	}
	return wrong
}
