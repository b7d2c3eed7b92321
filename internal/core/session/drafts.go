package session

import "slices"

// drafts are the rows that a change has read. A message touches its request
// four times and its session twice; each row is read and written once.
type drafts struct {
	requests []draft
	row      *Session
}

type draft struct {
	Request
	fresh, changed bool
}

func (c *change) draft(id string) *draft {
	for i := range c.requests {
		if c.requests[i].ID == id {
			return &c.requests[i]
		}
	}
	return nil
}

// request returns a request as this change sees it.
func (c *change) request(id string) (Request, error) {
	if d := c.draft(id); d != nil {
		return d.Request, nil
	}
	r, err := c.store().Request(c.tx, id)
	if err == nil {
		c.requests = append(c.requests, draft{Request: r})
	}
	return r, err
}

// add creates a request at the end of the change.
func (c *change) add(r Request) {
	c.requests = append(c.requests, draft{Request: r, fresh: true})
}

// save writes a request at the end of the change.
func (c *change) save(r Request) {
	if d := c.draft(r.ID); d != nil {
		d.Request, d.changed = r, true
		return
	}
	c.requests = append(c.requests, draft{Request: r, changed: true})
}

func (c *change) writeRequests() error {
	for _, d := range c.requests {
		var err error
		switch {
		case d.fresh:
			err = c.store().CreateRequest(c.tx, d.Request)
		case d.changed:
			err = c.store().SaveRequest(c.tx, d.Request)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// session returns the session's row as it was when the change first asked.
func (c *change) session() (Session, error) {
	if c.row != nil {
		return *c.row, nil
	}
	v, err := c.store().Session(c.tx, c.sessionID)
	if err == nil {
		c.row = &v
	}
	return v, err
}

// foresee spares a message that is applied at once the row that says it waits.
func (c *change) foresee(effects []Effect) {
	if c.mail != nil && slices.ContainsFunc(effects, func(e Effect) bool {
		return e.Kind == EffectApply && e.MessageID == c.mail.MessageID
	}) {
		c.mail.State = MailApplied
	}
}
