package router

import (
	"cmp"
	"fmt"
	"strings"

	"lilac/internal/core/mark"
	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
)

// detailLocked answers a question in a thread that is locked, and detailMuted one where we may not
// write; it has the place.
const (
	detailLocked = "The thread in which you asked me is locked, so I do not answer there. A moderator can unlock it."
	detailMuted  = "I could not answer you in %s. The bot lacks a permission there: an administrator of the server can allow it to send messages."
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
	if muted {
		return fmt.Sprintf(detailMuted, "#"+strings.TrimPrefix(cmp.Or(session.Title, session.ChannelID), "#")), nil
	}
	return "", nil
}

// refuse tells the author of a message that it is not answered. A missing permission is a mistake
// that the operator can mend; a thread is locked on purpose.
func (s *Service) refuse(tx *db.Tx, sessionID string, e Refuse) error {
	if e.Reason != detailLocked && s.o.Muted != nil {
		if err := s.o.Muted(tx, sessionID); err != nil {
			return err
		}
	}
	if s.o.Marks == nil {
		return nil
	}
	return s.o.Marks.Show(tx, s.ref(sessionID, e.MessageID), refusal, &mark.Notice{UserID: e.UserID, Text: e.Reason})
}
