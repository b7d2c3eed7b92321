package environment

import "lilac/internal/engine/bus"

// Handler is what the service does with a delivery.
func (s *Service) Handler() bus.Handler { return s.handle }
