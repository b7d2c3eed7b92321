package httpapi

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"lilac/internal/bus"
	"lilac/internal/event"
	"lilac/internal/fault"
)

// troubledBus is a bus whose log cannot be read while there is a trouble.
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

// Clients that wait ask every second. The log has a line when a cause begins and
// one when it is over.
func TestAnOutageIsALineAtItsBeginningAndOneAtItsEnd(t *testing.T) {
	w := newWorld(t)
	id := w.newSession()
	var log strings.Builder
	now := time.Unix(1_800_000_000, 0)
	away := &troubledBus{Bus: w.bus}
	opt := w.opt
	opt.Bus, opt.Now, opt.Logger = away, func() time.Time { return now }, slog.New(slog.NewTextHandler(&log, nil))
	server := New(opt)
	get := func(path string, want int) {
		t.Helper()
		r := httptest.NewRequest("GET", "http://127.0.0.1"+path, nil)
		r.Header.Set("Authorization", "Bearer "+token)
		rec := httptest.NewRecorder() // which no stream can be flushed to: it ends
		server.ServeHTTP(rec, r)
		if rec.Code != want {
			t.Errorf("%s: %d %s", path, rec.Code, rec.Body)
		}
	}
	// wants compares the lines of this while.
	wants := func(when string, lines ...string) {
		t.Helper()
		got := strings.Split(strings.TrimSpace(log.String()), "\n")
		log.Reset()
		if len(lines) == 0 && got[0] == "" {
			return
		}
		if len(got) != len(lines) {
			t.Errorf("%s the log has %d lines, want %d: %s", when, len(got), len(lines), strings.Join(got, "\n"))
			return
		}
		for i, want := range lines {
			if !strings.Contains(got[i], want) {
				t.Errorf("%s a line of the log is %s, want %s", when, got[i], want)
			}
		}
	}
	refused := func(times int) {
		for range times {
			now = now.Add(time.Second)
			get("/events", 503)
			get("/events?session_id="+id, 503)
		}
	}

	get("/events", 200)
	wants("before")
	away.trouble = "Redis cannot be reached."
	refused(30)
	get("/sessions", 200)
	get("/events?from=begin", 200) // it does not need to know where the log ends
	wants("while Redis is away", "level=ERROR msg=\"request could not be answered\"")
	away.trouble = "Redis refuses the password."
	refused(10)
	wants("for another cause", "level=ERROR")
	away.trouble = ""
	get("/events", 200)
	if over := log.String(); !strings.Contains(over, "level=INFO msg=\"requests are answered again\" cause=\"Redis cannot be reached.\" refused=60 after=39s") || !strings.Contains(over, "cause=\"Redis refuses the password.\" refused=20") {
		t.Errorf("at the end: %s", over)
	}
	wants("at the end", "level=INFO", "level=INFO")
	get("/events", 200)
	wants("afterwards")
	away.trouble = "Redis cannot be reached."
	refused(2)
	now = now.Add(outageForgotten + time.Second) // nobody asked for it
	refused(2)
	wants("twice", "level=ERROR", "level=ERROR")
}

func TestCausesOfOutagesAreBounded(t *testing.T) {
	var o outages
	now := time.Unix(1_800_000_000, 0)
	for i := range 10 * maxOutages {
		o.refuse(fmt.Sprint("cause ", i), 1, now.Add(time.Duration(i)))
	}
	last := fmt.Sprint("cause ", 10*maxOutages-1)
	for asked := range uint64(10 * maxRefused) {
		o.refuse(last, asked, now.Add(time.Second))
	}
	if len(o.causes) != maxOutages || o.causes[last] == nil || len(o.causes[last].asked) != maxRefused {
		t.Errorf("%d causes are kept", len(o.causes))
	}
}
