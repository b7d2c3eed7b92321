package health

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// DefaultEvery is how often a part is probed.
	DefaultEvery = 5 * time.Second
	// DefaultRest is how often a part at rest is probed though nobody asks: a
	// disk can be filled by others.
	DefaultRest = time.Minute
	// DefaultPatience is how long a probe may take. A sync of a busy disk can
	// take a second; one that takes longer than this is no working disk.
	DefaultPatience = 10 * time.Second
	// firstRetry is how soon a part that failed is looked at again; the wait
	// doubles up to the usual one. A start is seen to be done at once.
	firstRetry = time.Millisecond
	// askPatience is how long an asker waits for a look at what was at rest.
	askPatience = time.Second
)

// Status is how a part is.
type Status string

// The states of a part. A warning does not make the program unready.
const (
	OK      Status = "ok"
	Warning Status = "warning"
	Failed  Status = "failed"
)

// Part is what is known of one part. Its message is for everybody to read: it
// holds no path, address or secret.
type Part struct {
	Name    string `json:"name"`
	Status  Status `json:"status"`
	Message string `json:"message,omitempty"`
	// Needed says that no answer comes while the part fails. Another one that
	// fails holds up no conversation.
	Needed bool `json:"needed,omitempty"`
}

// Report is the state of all parts.
type Report struct {
	Ready bool   `json:"ready"`
	Parts []Part `json:"parts"`
}

// Reason is the first message of a part that failed, empty if none did.
func (r Report) Reason() string {
	for _, p := range r.Parts {
		if p.Status == Failed {
			return p.Name + ": " + strings.TrimSuffix(p.Message, ".")
		}
	}
	return ""
}

// Hindrance is why no answer comes now: the message of a needed part that
// failed, empty if none did.
func (r Report) Hindrance() string {
	for _, p := range r.Parts {
		if p.Status == Failed && p.Needed {
			return p.Message
		}
	}
	return ""
}

// Probe makes a part work and says why it does not. The message of an error is
// shown to everybody; see [Warn] for one that is no failure.
type Probe struct {
	Name string
	Run  func(ctx context.Context) error
	// Needed is told of the part: see [Part].
	Needed bool
	// Rests says whether the part has nothing to do and fails by its work only.
	// Then it is probed when somebody asks or something is done again, see
	// [Monitor.Work], and otherwise seldom. Nil means never.
	Rests func() bool
}

// Warn makes an error that is worth telling and does not make the program unready.
func Warn(format string, args ...any) error { return warning(fmt.Sprintf(format, args...)) }

type warning string

func (w warning) Error() string { return string(w) }

// Options are what a monitor is made of.
type Options struct {
	Probes []Probe
	// Describe turns the error of a probe into words for everybody; nil shows
	// the error itself.
	Describe func(error) string
	// Changed is told when a part becomes another status, and the error of the
	// probe, which may say more than the part's message.
	Changed               func(Part, error)
	Every, Rest, Patience time.Duration
	Now                   func() time.Time
}

// Monitor probes the parts.
type Monitor struct {
	opt Options

	started time.Time
	// worked is how long after the start something was done last.
	worked atomic.Int64

	mu     sync.Mutex
	phase  string // why the program as a whole does not work; empty while it does
	states []state
	runs   bool
	woken  chan struct{} // closed when something is done after a rest
	looked chan struct{} // closed when the next probe ends
}

type state struct {
	part Part
	// since is when the probe that runs now began; zero between two.
	since time.Time
	// done is when the last one ended, told what Changed heard last.
	done time.Time
	told Status
	// next is how long after done the next one is due.
	next  time.Duration
	asked chan struct{} // one slot: a look that is due is enough
}

// New returns a monitor that is not ready until [Monitor.Working] says so and
// every probe has succeeded once.
func New(o Options) *Monitor {
	if o.Every <= 0 {
		o.Every = DefaultEvery
	}
	if o.Rest <= 0 {
		o.Rest = DefaultRest
	}
	if o.Patience <= 0 {
		o.Patience = DefaultPatience
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Describe == nil {
		o.Describe = func(err error) string { return err.Error() }
	}
	if o.Changed == nil {
		o.Changed = func(Part, error) {}
	}
	m := &Monitor{
		opt: o, started: o.Now(), phase: "it is starting", states: make([]state, len(o.Probes)),
		woken: make(chan struct{}), looked: make(chan struct{}),
	}
	for i, p := range o.Probes {
		m.states[i].next, m.states[i].asked = o.Every, make(chan struct{}, 1)
		m.states[i].part = Part{Name: p.Name, Status: Failed, Message: "it was not looked at yet", Needed: p.Needed}
	}
	return m
}

// Working says that the program has started, Stopping that it ends.
func (m *Monitor) Working() { m.setPhase("") }

// Stopping says that the program takes nothing new any more.
func (m *Monitor) Stopping() { m.setPhase("it is stopping") }

func (m *Monitor) setPhase(why string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.phase = why
}

// Check runs every probe once, side by side, and waits for them at most as long
// as one may take.
func (m *Monitor) Check(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, m.opt.Patience)
	defer cancel()
	var wg sync.WaitGroup
	for i := range m.opt.Probes {
		wg.Go(func() { m.probe(ctx, i) })
	}
	wg.Wait()
}

// Run probes until ctx ends, each part on its own: one that hangs keeps no
// other from being seen.
func (m *Monitor) Run(ctx context.Context) error {
	m.setRuns(true)
	defer m.setRuns(false)
	var wg sync.WaitGroup
	for i := range m.opt.Probes {
		wg.Go(func() {
			again := firstRetry
			for ctx.Err() == nil {
				probing, cancel := context.WithTimeout(ctx, m.opt.Patience)
				failed := m.probe(probing, i)
				cancel()
				if !failed {
					again = firstRetry
					m.await(ctx, i)
					continue
				}
				m.sleep(ctx, i, min(again, m.opt.Every), nil)
				again = min(2*again, m.opt.Every)
			}
		})
	}
	wg.Wait()
	return nil
}

func (m *Monitor) setRuns(runs bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.runs = runs
}

// await returns when a part that works is to be looked at again.
func (m *Monitor) await(ctx context.Context, i int) {
	m.mu.Lock()
	woken := m.woken // before the look at what was done, so that nothing is missed
	m.mu.Unlock()
	rests := m.opt.Probes[i].Rests
	if rests == nil || m.age()-time.Duration(m.worked.Load()) <= m.opt.Every || !rests() {
		m.sleep(ctx, i, m.opt.Every, nil)
		return
	}
	if m.sleep(ctx, i, m.opt.Rest, woken) {
		m.sleep(ctx, i, m.opt.Every, nil) // it is looked at while it works, not when it begins
	}
}

// sleep waits until it is time, somebody asks for the part, or woken is closed,
// which it reports.
func (m *Monitor) sleep(ctx context.Context, i int, wait time.Duration, woken <-chan struct{}) bool {
	m.mu.Lock()
	m.states[i].next = wait
	m.mu.Unlock()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-m.states[i].asked:
	case <-woken:
		return true
	}
	return false
}

// Work says that something is being done: what was at rest is looked at again
// from now on. It costs next to nothing.
func (m *Monitor) Work() {
	now := m.age()
	if now-time.Duration(m.worked.Swap(int64(now))) <= m.opt.Every {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	close(m.woken)
	m.woken = make(chan struct{})
}

func (m *Monitor) age() time.Duration { return m.opt.Now().Sub(m.started) }

// Ask has the parts looked at that were not for a while because they rest. It
// returns nil when there are none, and otherwise a channel that is closed when
// the next look at a part has ended.
func (m *Monitor) Ask() (looked <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.runs {
		return nil
	}
	now := m.opt.Now()
	for i := range m.states {
		s := &m.states[i]
		if now.Sub(s.done) < m.opt.Every || !s.since.IsZero() && now.Sub(s.since) >= askPatience {
			continue
		}
		looked = m.looked
		if s.since.IsZero() {
			select {
			case s.asked <- struct{}{}:
			default:
			}
		}
	}
	return looked
}

func (m *Monitor) probe(ctx context.Context, i int) (failed bool) {
	m.mu.Lock()
	m.states[i].since = m.opt.Now()
	m.mu.Unlock()
	err := m.try(ctx, i)
	part := Part{Name: m.opt.Probes[i].Name, Status: OK, Needed: m.opt.Probes[i].Needed}
	var w warning
	switch {
	case errors.As(err, &w):
		part.Status, part.Message = Warning, string(w)
	case ctx.Err() != nil && errors.Is(err, context.DeadlineExceeded):
		part.Status, part.Message = Failed, fmt.Sprintf("it did nothing within %s", m.opt.Patience)
	case err != nil:
		part.Status, part.Message = Failed, m.opt.Describe(err)
	}
	m.mu.Lock()
	s := &m.states[i]
	now := m.opt.Now()
	s.part, s.since, s.done = part, time.Time{}, now
	close(m.looked)
	m.looked = make(chan struct{})
	// What is not there yet at the start is no news.
	tell := part.Status != s.told && (s.told != "" || part.Status != Failed || now.Sub(m.started) > m.opt.Every)
	if tell {
		tell, s.told = s.told != "" || part.Status != OK, part.Status
	}
	m.mu.Unlock()
	if tell {
		m.opt.Changed(part, err)
	}
	return part.Status == Failed
}

func (m *Monitor) try(ctx context.Context, i int) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the look at it panicked: %v", r)
		}
	}()
	return m.opt.Probes[i].Run(ctx)
}

// Hangs reports whether a probe does not come back: then only a new process
// helps, and a watchdog should get to know.
func (m *Monitor) Hangs() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.opt.Now()
	for _, s := range m.states {
		if !s.since.IsZero() && now.Sub(s.since) > 3*m.opt.Patience {
			return true
		}
	}
	return false
}

// Report says how every part is now. It waits a moment for a look at those that
// rest.
func (m *Monitor) Report() Report {
	m.refresh()
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.opt.Now()
	out := Report{Ready: m.phase == ""}
	if m.phase != "" {
		out.Parts = append(out.Parts, Part{Name: "program", Status: Failed, Message: m.phase})
	}
	for _, s := range m.states {
		part := s.part
		late := s.next + 2*m.opt.Patience
		switch {
		case !s.since.IsZero() && now.Sub(s.since) > m.opt.Patience+time.Second:
			part.Status, part.Message = Failed, fmt.Sprintf("it hangs for %s", now.Sub(s.since).Round(time.Second))
		case s.since.IsZero() && !s.done.IsZero() && now.Sub(s.done) > late:
			part.Status, part.Message = Failed, fmt.Sprintf("nobody looked at it for %s", now.Sub(s.done).Round(time.Second))
		}
		out.Ready = out.Ready && part.Status != Failed
		out.Parts = append(out.Parts, part)
	}
	return out
}

func (m *Monitor) refresh() {
	looked := m.Ask()
	if looked == nil {
		return
	}
	late := time.NewTimer(askPatience)
	defer late.Stop()
	for ; looked != nil; looked = m.Ask() {
		select {
		case <-looked:
		case <-late.C:
			return
		}
	}
}
