package router

import (
	"slices"

	"lilac/internal/core/mark"
	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
)

// detailLocked answers a question in a thread that is locked, and detailMuted one where we may not
// write; the title of that comes between its parts.
const (
	detailLocked = "The thread in which you asked me is locked, so I do not answer there. A moderator can unlock it."
	detailMuted  = "I could not answer you in #"
	detailPermit = ". The bot lacks a permission there: an administrator of the server can allow it to send messages."
)

// closed returns why nothing can be written in a session, "" if something can. A thread has the
// permissions of its channel.
func (s *Service) closed(q db.Queryer, session surface.Session) (string, error) {
	if session.Locked {
		return detailLocked, nil
	}
	muted := session.Muted
	if session.Kind == surface.Thread {
		channel, err := s.session(q, session.ParentChannelID)
		if err != nil {
			return "", err
		}
		muted = channel.ThreadsMuted
	}
	if !muted {
		return "", nil
	}
	return detailMuted + session.Title + detailPermit, nil
}

// refuse tells the author of a message that it is not answered.
func (s *Service) refuse(tx *db.Tx, sessionID string, e Refuse) error {
	if err := s.complain(tx, sessionID, e.Reason); err != nil || s.o.Marks == nil {
		return err
	}
	return s.o.Marks.Show(tx, s.ref(sessionID, e.MessageID), refusal, &mark.Notice{UserID: e.UserID, Text: e.Reason})
}

// refuseBurst tells everybody who wrote a part of a burst that it is not answered.
func (s *Service) refuseBurst(tx *db.Tx, sessionID string, e RefuseBurst) error {
	if err := s.complain(tx, sessionID, e.Reason); err != nil || s.o.Marks == nil {
		return err
	}
	var told []string
	for _, id := range e.MessageIDs {
		m, err := s.o.Cache.Message(tx, s.o.Platform, sessionID, id)
		if fault.KindOf(err) == fault.NotFound || err == nil && (m.AuthorBot || slices.Contains(told, m.AuthorID)) {
			continue
		}
		if err != nil {
			return err
		}
		told = append(told, m.AuthorID)
		if err := s.o.Marks.Tell(tx, s.ref(sessionID, id), mark.Notice{UserID: m.AuthorID, Text: e.Reason}); err != nil {
			return err
		}
	}
	return nil
}

// complain tells the operator about a missing permission; a thread is locked on purpose.
func (s *Service) complain(tx *db.Tx, sessionID, reason string) error {
	if reason == detailLocked {
		return nil
	}
	return s.o.Muted(tx, sessionID)
}
