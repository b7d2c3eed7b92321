package environment

import "lilac/internal/engine/bus"

// Handler is what the service does with a delivery.
func (s *Service) Handler() bus.Handler { return s.handle }

// Release removes an event from its queue, as if it was handled.
func Release(i *Intake, id string) { i.release(id) }
