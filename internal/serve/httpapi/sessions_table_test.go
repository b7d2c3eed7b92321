package httpapi

import (
	"lilac/internal/core/session"
	"lilac/internal/engine/db"
)

func (s *tables) SetFiling(_ *db.Tx, id string, f session.Filing) error {
	return s.edit(id, func(v *session.Session) { v.Filing = f })
}

func (s *tables) SetChoice(_ *db.Tx, id string, c session.Choice) error {
	return s.edit(id, func(v *session.Session) { v.Choice = c })
}

func (s *tables) SetTitle(_ *db.Tx, id, title string) error {
	return s.edit(id, func(v *session.Session) { v.Title = title })
}

func (s *tables) edit(id string, change func(*session.Session)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.sessions {
		if s.sessions[i].ID == id {
			change(&s.sessions[i])
		}
	}
	return nil
}
