package agent

import "sync"

// Signal says that an interrupt waits. The host raises it; the run takes it,
// or lets it stop what it does. It is no channel because a run would need a
// goroutine of its own to wait for one. The zero value is ready.
type Signal struct {
	mu     sync.Mutex
	raised bool
	// watcher is called instead of raised being set; it is called once.
	watcher func()
}

// Raise says that an interrupt waits. Several before one is taken are one.
func (s *Signal) Raise() {
	s.mu.Lock()
	hit := s.watcher
	s.watcher = nil
	s.raised = s.raised || hit == nil
	s.mu.Unlock()
	if hit != nil {
		hit()
	}
}

// take returns whether the signal was raised, and lowers it.
func (s *Signal) take() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	raised := s.raised
	s.raised = false
	return raised
}

// watch calls hit when the signal is raised, or was, and lowers it. After stop
// it does not any more; stop says whether hit was, or is about to be, called.
func (s *Signal) watch(hit func()) (stop func() bool) {
	s.mu.Lock()
	raised := s.raised
	s.raised = false
	if !raised {
		s.watcher = hit
	}
	s.mu.Unlock()
	if raised {
		hit()
	}
	return func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		called := s.watcher == nil
		s.watcher = nil
		return called
	}
}
