package httpapi

import (
	"lilac/internal/core/session"
	"lilac/internal/engine/db"
)

func (s *tables) SetFiling(_ *db.Tx, id string, f session.Filing) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.sessions {
		if s.sessions[i].ID == id {
			s.sessions[i].Filing = f
		}
	}
	return nil
}

func (s *tables) SetChoice(_ *db.Tx, id string, c session.Choice) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.sessions {
		if s.sessions[i].ID == id {
			s.sessions[i].Choice = c
		}
	}
	return nil
}

func (s *tables) SetTitle(_ *db.Tx, id, title string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.sessions {
		if s.sessions[i].ID == id {
			s.sessions[i].Title = title
		}
	}
	return nil
}
