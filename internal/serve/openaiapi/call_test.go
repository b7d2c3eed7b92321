package openaiapi

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lilac/internal/foundation/chat"
)

// plainWorld serves a model without the agent, whose calls end with their context. asked receives a value for
// each call.
func plainWorld(t *testing.T) (h *Handler, asked chan struct{}, stop context.CancelFunc) {
	t.Helper()
	asked = make(chan struct{}, 2*maxPlain)
	stopping, stop := context.WithCancel(t.Context())
	return New(Options{
		Now: time.Now, Stopping: stopping, Logger: slog.New(slog.DiscardHandler),
		Clients: func() []Client { return []Client{{Name: "ide", Token: "token"}} },
		Models:  func() []Model { return []Model{{ID: "plain", Plain: true}} },
		Plain: func(ctx context.Context, _, _, _ string) (string, chat.Usage, error) {
			asked <- struct{}{}
			<-ctx.Done()
			return "", chat.Usage{}, ctx.Err()
		},
	}), asked, stop
}

func askPlain(h http.Handler, more string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(`{"model":"plain","messages":[{"role":"user","content":"hello"}]`+more+`}`))
	r.Header.Set("Authorization", "Bearer token")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// A stop waits for open calls, and then breaks their connections off.
func TestAStopEndsACallOfThePlainModel(t *testing.T) {
	h, asked, stop := plainWorld(t)
	go func() {
		<-asked
		stop()
	}()
	if w := askPlain(h, ""); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "restarting") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// Otherwise, many calls at once could use more than the limits of the day allow.
func TestFewCallsOfThePlainModelRunAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, asked, stop := plainWorld(t)
		var ended sync.WaitGroup
		for range maxPlain + 1 {
			ended.Go(func() {
				if w := askPlain(h, ""); w.Code != http.StatusServiceUnavailable {
					t.Errorf("%d %s", w.Code, w.Body)
				}
			})
		}
		synctest.Wait()
		if len(asked) != maxPlain {
			t.Errorf("%d calls run, want %d", len(asked), maxPlain)
		}
		stop()
		ended.Wait()
	})
}

// The schema becomes a part of the prompt.
func TestALongSchemaIsRefused(t *testing.T) {
	h, _, stop := plainWorld(t)
	stop()
	for size, want := range map[int]int{maxSchema / 2: http.StatusServiceUnavailable, maxSchema: http.StatusBadRequest} {
		schema := `{"type":"object","title":"` + strings.Repeat("x", size) + `"}`
		if w := askPlain(h, `,"response_format":{"type":"json_schema","json_schema":{"schema":`+schema+`}}`); w.Code != want {
			t.Errorf("%d bytes: %d %.200s", size, w.Code, w.Body)
		}
	}
}
