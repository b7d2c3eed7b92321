package account

import (
	"context"
	"fmt"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
)

// maxDepth bounds the sub-agents above a sub-agent.
const maxDepth = 8

// RightIn returns the right of a person in a conversation. In the conversation of a sub-agent,
// it is that in the conversation for which the sub-agent works.
func (s *Service) RightIn(ctx context.Context, personID, sessionID string) (r Right, err error) {
	err = s.db.Read(ctx, func(q db.Queryer) error {
		for range maxDepth { // a sub-agent may have sub-agents
			above, err := s.payer(q, sessionID)
			if err != nil {
				return err
			}
			if above == "" {
				break
			}
			sessionID = above
		}
		r, err = s.t.Shares.RightOf(q, sessionID, personID)
		return err
	})
	return r, err
}

// Own makes the caller the owner of a conversation that the transaction creates. The operator
// owns none: operators may do everything in all of them.
func (s *Service) Own(tx *db.Tx, by Caller, sessionID string) error {
	if !by.HasAccount() {
		return nil
	}
	err := s.t.Shares.SaveShare(tx, Share{SessionID: sessionID, PersonID: by.ID, Right: Owner, CreatedAt: tx.Now().UnixMilli()})
	if err != nil {
		return fmt.Errorf("record owner: %w", err)
	}
	return nil
}

// HasPeople reports whether people with accounts are in a conversation.
func (s *Service) HasPeople(q db.Queryer, sessionID string) (bool, error) {
	if !s.InUse() {
		return false, nil
	}
	shares, err := s.t.Shares.Shares(q, sessionID)
	return len(shares) > 0, err
}

// Sharing lists the people and the links with a right in a conversation.
type Sharing struct {
	People []Share `json:"people"`
	Links  []Link  `json:"links"`
}

// Sharing lists the people and the links of a conversation.
func (s *Service) Sharing(ctx context.Context, sessionID string) (out Sharing, err error) {
	err = s.db.Read(ctx, func(q db.Queryer) error {
		out.People, err = s.t.Shares.Shares(q, sessionID)
		if err != nil {
			return err
		}
		out.Links, err = s.t.Shares.Links(q, sessionID, s.now().UnixMilli())
		return err
	})
	out.People, out.Links = append([]Share{}, out.People...), append([]Link{}, out.Links...)
	return out, err
}

// Share gives a person a right in a conversation, in place of the one that the person has.
func (s *Service) Share(ctx context.Context, by Caller, sessionID, personID string, r Right) error {
	if !r.Shareable() {
		return badRight(r)
	}
	return s.db.Update(ctx, func(tx *db.Tx) error {
		p, err := s.t.People.Person(tx, personID)
		if err != nil {
			return err
		}
		if p.Disabled {
			return fault.New(fault.Conflict, "The account %s is disabled.", p.ID)
		}
		shares, err := s.t.Shares.Shares(tx, sessionID)
		if err != nil {
			return err
		}
		for _, one := range shares {
			if one.PersonID == personID && one.Right == Owner {
				return fault.New(fault.Conflict, "The conversation belongs to %s.", p.Name)
			}
		}
		if len(shares) >= maxShares {
			return tooMany(len(shares))
		}
		if err := s.t.Shares.SaveShare(tx, Share{SessionID: sessionID, PersonID: personID, Right: r, CreatedAt: tx.Now().UnixMilli()}); err != nil {
			return err
		}
		return s.Note(tx, by, Action{Kind: "share", SessionID: sessionID, Subject: personID, Detail: string(r)})
	})
}

func tooMany(n int) error {
	return fault.New(fault.Conflict, "The conversation is shared with %d people already, which is the maximum.", n)
}

func badRight(r Right) error {
	return fault.InvalidField("right", "There is no right %q to share. Use read or part.", r)
}

// Unshare takes the right of a person in a conversation, but not that of the owner.
func (s *Service) Unshare(ctx context.Context, by Caller, sessionID, personID string) error {
	return s.db.Update(ctx, func(tx *db.Tx) error {
		has, err := s.t.Shares.RightOf(tx, sessionID, personID)
		if err != nil {
			return err
		}
		if has == Owner {
			return fault.New(fault.Conflict, "The conversation belongs to this person.")
		}
		if err := s.t.Shares.DropShare(tx, sessionID, personID); err != nil {
			return err
		}
		return s.Note(tx, by, Action{Kind: "unshare", SessionID: sessionID, Subject: personID})
	})
}

// NewLink creates a link to a conversation, and returns its secret, which is in no table.
func (s *Service) NewLink(ctx context.Context, by Caller, sessionID string, r Right) (l Link, secret string, err error) {
	if !r.Shareable() {
		return l, "", badRight(r)
	}
	now := s.now()
	secret = newSecret()
	l = Link{ID: newID(), SessionID: sessionID, Right: r, CreatedBy: by.ID, CreatedAt: now.UnixMilli(), ExpiresAt: now.Add(LinkAge).UnixMilli()}
	err = s.db.Update(ctx, func(tx *db.Tx) error {
		links, err := s.t.Shares.Links(tx, sessionID, now.UnixMilli())
		if err != nil {
			return err
		}
		if len(links) >= maxLinks {
			return fault.New(fault.Conflict, "The conversation has %d links already. Revoke some first.", len(links))
		}
		if err := s.t.Shares.AddLink(tx, l, hash(secret)); err != nil {
			return err
		}
		return s.Note(tx, by, Action{Kind: "link", SessionID: sessionID, Subject: l.ID, Detail: string(r)})
	})
	return l, secret, err
}

// DropLink makes a link useless, and takes the rights of the people who came through it.
func (s *Service) DropLink(ctx context.Context, by Caller, sessionID, id string) error {
	return s.db.Update(ctx, func(tx *db.Tx) error {
		if err := s.t.Shares.DropLink(tx, sessionID, id); err != nil {
			return err
		}
		return s.Note(tx, by, Action{Kind: "drop-link", SessionID: sessionID, Subject: id})
	})
}

// Join uses a link: the caller gets its right in the conversation, unless they have a larger one.
func (s *Service) Join(ctx context.Context, by Caller, secret string) (l Link, err error) {
	err = s.db.Update(ctx, func(tx *db.Tx) error {
		l, err = s.t.Shares.LinkOf(tx, hash(secret))
		if fault.KindOf(err) == fault.NotFound || err == nil && l.ExpiresAt <= s.now().UnixMilli() {
			return &fault.Error{Kind: fault.NotFound, Code: "bad_link", Message: "This link is invalid, revoked or expired. Ask for a new one."}
		}
		if err != nil || !by.HasAccount() {
			return err
		}
		has, err := s.t.Shares.RightOf(tx, l.SessionID, by.ID)
		if err != nil || Larger(has, l.Right) == has {
			return err
		}
		shares, err := s.t.Shares.Shares(tx, l.SessionID)
		if err != nil {
			return err
		}
		if len(shares) >= maxShares {
			return tooMany(len(shares))
		}
		if err := s.t.Shares.SaveShare(tx, Share{SessionID: l.SessionID, PersonID: by.ID, Right: l.Right, Link: l.ID, CreatedAt: tx.Now().UnixMilli()}); err != nil {
			return err
		}
		return s.Note(tx, by, Action{Kind: "join", SessionID: l.SessionID, Subject: l.ID, Detail: string(l.Right)})
	})
	return l, err
}
