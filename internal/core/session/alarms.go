package session

import (
	"sync"
	"time"
)

// maxAlarmSleep is how long an alarm sleeps before it reads the clock again.
const maxAlarmSleep = time.Minute

// alarms fire at the end of pauses: one timer per paused session, and no goroutine.
type alarms struct {
	mu     sync.Mutex
	timers map[string]*time.Timer
}

// set schedules ring for the time when left returns zero or less. It reads the clock
// every maxAlarmSleep, because the machine may sleep or its clock may be set.
func (a *alarms) set(sessionID string, left func() time.Duration, ring func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if t := a.timers[sessionID]; t != nil {
		t.Stop()
	}
	var t *time.Timer
	due := func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.timers[sessionID] != t {
			return false // stopped or replaced
		}
		rest := left()
		if rest > 0 {
			t.Reset(min(rest, maxAlarmSleep))
		}
		return rest <= 0
	}
	t = time.AfterFunc(min(left(), maxAlarmSleep), func() {
		if due() {
			ring()
		}
	})
	a.timers[sessionID] = t
}

func (a *alarms) stop(sessionID string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if t := a.timers[sessionID]; t != nil {
		t.Stop()
		delete(a.timers, sessionID)
	}
}

func (a *alarms) stopAll() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, t := range a.timers {
		t.Stop()
		delete(a.timers, id)
	}
}
