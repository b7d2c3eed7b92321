package session

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A reader of a model stream sleeps only if there are many streams and only after a publication. It
// never sleeps past its next publication or the end of its run.
func TestAReaderSleepsUntilItsStreamMayPublishAgain(t *testing.T) {
	ended, end := context.WithCancel(context.Background())
	end()
	for _, c := range []struct {
		name    string
		streams int64
		ctx     context.Context
		since   time.Duration // time since the last publication; negative: there was none
		want    time.Duration
	}{
		{"few streams", throttleStreams - 1, context.Background(), 0, 0},
		{"nothing published yet", throttleStreams, context.Background(), -1, 0},
		{"just published", throttleStreams, context.Background(), 0, minInterval - throttleLead},
		{"published a while ago", throttleStreams, context.Background(), 30 * time.Millisecond, minInterval - throttleLead - 30*time.Millisecond},
		{"due already", throttleStreams, context.Background(), minInterval, 0},
		{"a thousand streams", 1000, context.Background(), 0, 1000*time.Second/streamRate - throttleLead},
		{"the run has ended", throttleStreams, ended, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := New(Options{})
				s.streams.Store(c.streams)
				o := newOutput(s, "web:s:r", nil, 0, "")
				if c.since >= 0 {
					o.markSent()
					time.Sleep(c.since)
				}
				begin := time.Now()
				o.throttle(c.ctx)
				if got := time.Since(begin); got != c.want {
					t.Errorf("it rests %v, want %v", got, c.want)
				}
			})
		})
	}
}
