package environment

import "lilac/internal/bus"

// Handler is what the service does with a delivery.
func (s *Service) Handler() bus.Handler { return s.handle }
