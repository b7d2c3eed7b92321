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
	// DefaultRest is how often a part at rest is probed without a request, because
	// other programs can fill the disk.
	DefaultRest = time.Minute
	// DefaultPatience is the time limit of a probe. A sync can take a second on a
	// busy disk, but not this long.
	DefaultPatience = 10 * time.Second
	// firstRetry is the wait before a failed part is probed again. It doubles up to
	// the usual interval. It is short so that a completed start is noticed at once.
	firstRetry = time.Millisecond
	// askPatience is how long a reader of the report waits for probes of parts at rest.
	askPatience = time.Second
)

// Status is the state of a part.
type Status string

// The states of a part. A warning does not make the program unready.
const (
	OK      Status = "ok"
	Warning Status = "warning"
	Failed  Status = "failed"
)

// Part is the state of one component. Its message is public: it contains no path,
// address, or secret.
type Part struct {
	Name    string `json:"name"`
	Status  Status `json:"status"`
	Message string `json:"message,omitempty"`
	// Needed reports that Lilac cannot answer while the part fails.
	Needed bool `json:"needed,omitempty"`
}

// Report is the state of all parts.
type Report struct {
	Ready bool   `json:"ready"`
	Parts []Part `json:"parts"`
}

// Reason returns the message of the first failed part, or "".
func (r Report) Reason() string {
	for _, p := range r.Parts {
		if p.Status == Failed {
			return p.Name + ": " + strings.TrimSuffix(p.Message, ".")
		}
	}
	return ""
}

// Hindrance returns why Lilac cannot answer now: the message of the first needed part
// that failed, or "".
func (r Report) Hindrance() string {
	for _, p := range r.Parts {
		if p.Status == Failed && p.Needed {
			return p.Message
		}
	}
	return ""
}

// Probe makes a part do something, and returns an error if that fails. Error messages
// are public. See [Warn] for warnings.
type Probe struct {
	Name string
	Run  func(ctx context.Context) error
	// Needed is copied to the [Part].
	Needed bool
	// Rests reports whether the part has nothing to do and can fail only while it
	// works. Such a part is probed rarely, and when the report is read or work begins
	// (see [Monitor.Work]). Nil means that it never rests.
	Rests func() bool
}

// Warn returns an error that becomes a warning and does not make the program unready.
func Warn(format string, args ...any) error { return warning(fmt.Sprintf(format, args...)) }

type warning string

func (w warning) Error() string { return string(w) }

// Options configure a Monitor. Zero durations get defaults.
type Options struct {
	Probes []Probe
	// Describe converts the error of a probe to a public message; nil uses the error's
	// own text.
	Describe func(error) string
	// Changed is called when a part's status changes, with the error of the probe, which
	// may contain more than the public message.
	Changed               func(Part, error)
	Every, Rest, Patience time.Duration
	Now                   func() time.Time
}

// Monitor probes parts and reports their states.
type Monitor struct {
	opt Options

	started time.Time
	// worked is the time of the latest work, since started.
	worked atomic.Int64

	mu     sync.Mutex
	phase  string // why the whole program does not work, or ""
	states []state
	runs   bool
	woken  chan struct{} // closed when work begins after a rest
	looked chan struct{} // closed when the next probe ends
}

type state struct {
	part Part
	// since is when the running probe started; zero if none runs.
	since time.Time
	// done is when the last probe ended; told is the last status passed to Changed.
	done time.Time
	told Status
	// next is the interval after done until the next probe.
	next  time.Duration
	asked chan struct{} // one slot: one pending probe is enough
}

// New returns a monitor that reports "not ready" until [Monitor.Working] is called and
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
		m.states[i].part = Part{Name: p.Name, Status: Failed, Message: "not checked yet", Needed: p.Needed}
	}
	return m
}

// Working reports that the program has started.
func (m *Monitor) Working() { m.setPhase("") }

// Stopping reports that the program accepts no new work.
func (m *Monitor) Stopping() { m.setPhase("it is stopping") }

func (m *Monitor) setPhase(why string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.phase = why
}

// Check runs every probe once, in parallel, within the time limit of one probe.
func (m *Monitor) Check(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, m.opt.Patience)
	defer cancel()
	var wg sync.WaitGroup
	for i := range m.opt.Probes {
		wg.Go(func() { m.probe(ctx, i) })
	}
	wg.Wait()
}

// Run probes until ctx ends, each part in its own goroutine, so that a probe that hangs
// delays no other.
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

// await returns when a working part is due for its next probe.
func (m *Monitor) await(ctx context.Context, i int) {
	m.mu.Lock()
	woken := m.woken // read before the check for work, so that no wake-up is missed
	m.mu.Unlock()
	rests := m.opt.Probes[i].Rests
	if rests == nil || m.age()-time.Duration(m.worked.Load()) <= m.opt.Every || !rests() {
		m.sleep(ctx, i, m.opt.Every, nil)
		return
	}
	if m.sleep(ctx, i, m.opt.Rest, woken) {
		m.sleep(ctx, i, m.opt.Every, nil) // probe it while it works, not when it begins
	}
}

// sleep waits for the interval, for a request to probe the part, or until woken is
// closed. It reports whether woken was closed.
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

// Work reports that the program does something, so that parts at rest are probed at the
// usual interval again. It is cheap.
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

// Ask requests probes of parts whose results are old because they rest. It returns nil
// if there are none, and otherwise a channel that is closed when the next probe ends.
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
	if errors.Is(ctx.Err(), context.Canceled) { // the monitor stops, which says nothing about the part
		m.mu.Lock()
		defer m.mu.Unlock()
		m.states[i].since = time.Time{}
		return false
	}
	part := Part{Name: m.opt.Probes[i].Name, Status: OK, Needed: m.opt.Probes[i].Needed}
	var w warning
	switch {
	case errors.As(err, &w):
		part.Status, part.Message = Warning, string(w)
	case ctx.Err() != nil && errors.Is(err, context.DeadlineExceeded):
		part.Status, part.Message = Failed, fmt.Sprintf("no response within %s", m.opt.Patience)
	case err != nil:
		part.Status, part.Message = Failed, m.opt.Describe(err)
	}
	m.mu.Lock()
	s := &m.states[i]
	now := m.opt.Now()
	s.part, s.since, s.done = part, time.Time{}, now
	close(m.looked)
	m.looked = make(chan struct{})
	// A part that is not up yet at startup is not reported.
	tell := part.Status != s.told && (s.told != "" || part.Status == OK || now.Sub(m.started) > m.opt.Every)
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
			err = fmt.Errorf("the check panicked: %v", r)
		}
	}()
	return m.opt.Probes[i].Run(ctx)
}

// Hangs reports whether a probe does not return. Then only a new process helps, so the
// watchdog should restart it.
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

// Report returns the state of every part. It waits up to a second for probes of parts
// at rest.
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
			part.Status, part.Message = Failed, fmt.Sprintf("not responding for %s", now.Sub(s.since).Round(time.Second))
		case s.since.IsZero() && !s.done.IsZero() && now.Sub(s.done) > late:
			part.Status, part.Message = Failed, fmt.Sprintf("not checked for %s", now.Sub(s.done).Round(time.Second))
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
