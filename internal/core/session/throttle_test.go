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

// A model that writes faster than anybody reads waits until what it wrote is published, or its
// run ends. The control has a byte less to publish.
func TestAFastModelWaitsForThePublication(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutput(New(Options{}), "web:s:r", nil, 0, "")
		o.buffered = fastText - 1
		begin := time.Now()
		o.throttle(t.Context())
		if got := time.Since(begin); got != 0 {
			t.Errorf("control: it waits %v", got)
		}
		o.buffered = fastText
		go func() {
			time.Sleep(time.Second)
			if _, err := o.collect(); err != nil {
				t.Error(err)
			}
		}()
		o.throttle(t.Context())
		if got := time.Since(begin); got < time.Second || got > time.Second+throttleLead {
			t.Errorf("it waits %v for a publication after a second", got)
		}
		o.buffered = fastText
		ended, end := context.WithCancel(t.Context())
		end()
		o.throttle(ended)
	})
}
