package agent

import "sync"

// Signal reports that an interrupt waits. The host raises it; the run lowers it, or lets
// it stop the current call. It is not a channel, because the run would need another
// goroutine to wait for one. The zero value is ready to use.
type Signal struct {
	mu     sync.Mutex
	raised bool
	// watcher is called instead of raised being set; it is called once.
	watcher func()
}

// Raise reports that an interrupt waits. Raising it twice before it is lowered is like
// raising it once.
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

// take lowers the signal and reports whether it was raised.
func (s *Signal) take() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	raised := s.raised
	s.raised = false
	return raised
}

// watch calls hit once when the signal is raised, or at once if it is raised already, and
// lowers it. stop ends the watch and reports whether hit was, or is about to be, called.
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
