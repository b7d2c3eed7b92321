package session

import "lilac/internal/engine/db"

// rowCache holds the rows that a transaction has read. A message touches its request
// four times and its session twice; the cache reads and writes each row once.
type rowCache struct {
	tables    *Tables
	tx        *db.Tx
	sessionID string

	requests []cachedRequest
	row      *Session
}

type cachedRequest struct {
	Request
	fresh, changed bool
}

func (c *rowCache) cachedRequest(id string) *cachedRequest {
	for i := range c.requests {
		if c.requests[i].ID == id {
			return &c.requests[i]
		}
	}
	return nil
}

// request returns a request with the modifications so far.
func (c *rowCache) request(id string) (Request, error) {
	if d := c.cachedRequest(id); d != nil {
		return d.Request, nil
	}
	r, err := c.tables.Requests.Request(c.tx, id)
	if err == nil {
		c.requests = append(c.requests, cachedRequest{Request: r})
	}
	return r, err
}

// insertRequest inserts a request at the end of the transaction.
func (c *rowCache) insertRequest(r Request) {
	c.requests = append(c.requests, cachedRequest{Request: r, fresh: true})
}

// updateRequest updates a request at the end of the transaction.
func (c *rowCache) updateRequest(r Request) {
	if d := c.cachedRequest(r.ID); d != nil {
		d.Request, d.changed = r, true
		return
	}
	c.requests = append(c.requests, cachedRequest{Request: r, changed: true})
}

// writeRequests writes the inserted and updated requests.
func (c *rowCache) writeRequests() error {
	for _, d := range c.requests {
		var err error
		switch {
		case d.fresh:
			err = c.tables.Requests.CreateRequest(c.tx, d.Request)
		case d.changed:
			err = c.tables.Requests.SaveRequest(c.tx, d.Request)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// session returns the session's row as it was at the first call.
func (c *rowCache) session() (Session, error) {
	if c.row != nil {
		return *c.row, nil
	}
	v, err := c.tables.Sessions.Session(c.tx, c.sessionID)
	if err == nil {
		c.row = &v
	}
	return v, err
}
