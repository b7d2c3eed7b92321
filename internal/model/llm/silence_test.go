package llm

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// chunk is a part of a response and the pause before it.
type chunk struct {
	pause time.Duration
	text  string
}

// slow is a transport whose response begins after a pause and arrives in chunks. After the
// last chunk, it ends if hang is not set.
type slow struct {
	pause  time.Duration
	chunks []chunk
	hang   bool
}

func (s slow) RoundTrip(r *http.Request) (*http.Response, error) {
	if !rests(r.Context(), s.pause) {
		return nil, r.Context().Err()
	}
	body, w := io.Pipe()
	go func() {
		for _, c := range s.chunks {
			if !rests(r.Context(), c.pause) {
				_ = w.CloseWithError(r.Context().Err())
				return
			}
			if _, err := io.WriteString(w, c.text); err != nil {
				return // nobody reads any more
			}
		}
		if s.hang {
			<-r.Context().Done()
		}
		_ = w.CloseWithError(r.Context().Err())
	}()
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: body, Request: r}, nil
}

func rests(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// The first event has a limit of its own. Afterwards, every byte is a sign of life, also that of
// a comment, however long the answer takes.
func TestSilenceIsCountedFromTheLastByte(t *testing.T) {
	const first, silence = time.Minute, 10 * time.Second
	comments := make([]chunk, 100)
	for i := range comments {
		comments[i] = chunk{9 * time.Second, ": still there\n\n"}
	}
	event := chunk{0, "data: {}\n\n"}
	for name, c := range map[string]struct {
		transport slow
		events    int
		silent    bool
		took      time.Duration
	}{
		"the headers come in time":            {slow{pause: 59 * time.Second, chunks: []chunk{event}}, 1, false, 59 * time.Second},
		"the headers come too late":           {slow{pause: 2 * time.Minute}, 0, true, first},
		"the first event may take longer":     {slow{chunks: []chunk{{50 * time.Second, event.text}}}, 1, false, 50 * time.Second},
		"the first event comes too late":      {slow{chunks: []chunk{{2 * time.Minute, event.text}}}, 0, true, first},
		"a later event has the shorter limit": {slow{chunks: []chunk{event, {50 * time.Second, event.text}}}, 1, true, silence},
		"comments before the first event":     {slow{chunks: append(comments[:len(comments):len(comments)], event)}, 1, false, 900 * time.Second},
		"comments after the first event":      {slow{chunks: append(append([]chunk{event}, comments...), event)}, 2, false, 900 * time.Second},
		"comments that stop":                  {slow{chunks: append([]chunk{event}, comments[:3]...), hang: true}, 1, true, 27*time.Second + silence},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := &Endpoint{Vendor: "the host", FirstToken: first, Silence: silence, Client: &http.Client{Transport: c.transport}}
				events, began := 0, time.Now()
				err := e.Post(t.Context(), "http://model.example/v1", http.Header{}, []byte("{}"), func(data []byte) (bool, error) {
					if strings.TrimSpace(string(data)) != "{}" {
						return false, errors.New("an event that is none")
					}
					events++
					return true, nil
				})
				if events != c.events || IsSilent(err) != c.silent || (err != nil) != c.silent || time.Since(began) != c.took {
					t.Errorf("%d events after %s: %v; want %d after %s, silent %v", events, time.Since(began), err, c.events, c.took, c.silent)
				}
				synctest.Wait()
			})
		})
	}
}
