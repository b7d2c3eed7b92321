package httpapi

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"lilac/internal/engine/bus"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

// troubledBus is a bus whose log cannot be read while trouble is not empty.
type troubledBus struct {
	bus.Bus
	trouble string
}

func (b *troubledBus) Last(ctx context.Context, topic event.Topic) (bus.Position, error) {
	if b.trouble != "" {
		return "", fault.New(fault.Unavailable, "%s", b.trouble)
	}
	return b.Bus.Last(ctx, topic)
}

// Waiting clients retry every second. The log must not contain a line for each retry.
func TestCauseOfAnOutageIsLoggedOnce(t *testing.T) {
	w := newWorld(t)
	id := w.newSession()
	var log strings.Builder
	now := time.Unix(1_800_000_000, 0)
	away := &troubledBus{Bus: w.bus}
	opt := w.opt
	opt.Bus, opt.Now, opt.Logger = away, func() time.Time { return now }, slog.New(slog.NewTextHandler(&log, nil))
	server := New(opt)
	asking := t.Context()
	refused := func(times int) (lines int) {
		t.Helper()
		log.Reset()
		for range times {
			now = now.Add(time.Second)
			for _, path := range []string{"/events", "/events?session_id=" + id} {
				r := httptest.NewRequest("GET", "http://127.0.0.1"+path, nil)
				r.Header.Set("Authorization", "Bearer "+token)
				r = r.WithContext(asking)
				rec := httptest.NewRecorder()
				server.ServeHTTP(rec, r)
				if asking.Err() == nil && rec.Code != 503 {
					t.Errorf("%s: %d %s", path, rec.Code, rec.Body)
				}
			}
		}
		return strings.Count(log.String(), "level=ERROR")
	}

	away.trouble = "Redis cannot be reached."
	gone, leave := context.WithCancel(t.Context())
	leave()
	asking = gone
	if n := refused(1); n != 0 {
		t.Errorf("of a client that is gone are %d lines in the log", n)
	}
	asking = t.Context() // no connected client has caused a log line yet
	if n := refused(2 * int(outageExpiry/time.Second)); n != 1 {
		t.Errorf("a cause is in %d lines of the log", n)
	}
	away.trouble = "Redis refuses the password."
	if n := refused(5); n != 1 {
		t.Errorf("another cause is in %d lines of the log", n)
	}
	now = now.Add(outageExpiry)
	if n := refused(5); n != 1 {
		t.Errorf("a cause that comes again is in %d lines of the log", n)
	}
}

func TestCausesOfOutagesAreBounded(t *testing.T) {
	var o outages
	now := time.Unix(1_800_000_000, 0)
	for i := range 10 * maxOutages {
		if !o.begins(fmt.Sprint("cause ", i), now) {
			t.Errorf("cause %d is not told", i)
		}
	}
	if len(o.last) != maxOutages {
		t.Errorf("%d causes are kept", len(o.last))
	}
}
