package httpapi

import (
	"encoding/base64"
	"encoding/json"
	"slices"

	"lilac/internal/engine/bus"
	"lilac/internal/foundation/fault"
)

// maxFollowed limits the requests whose text one stream carries at a time, and
// with it the size of a cursor. Of further requests, the stream has the start and
// the end, which contains the complete text.
const maxFollowed = 64

// maxCursor is more than maxFollowed requests with long ids take, in bytes.
const maxCursor = 64 << 10

// cursor holds the position of every topic that a stream merges. The client has
// received every event up to these positions.
type cursor struct {
	// Epoch identifies the store and bus that the positions belong to.
	Epoch string       `json:"v,omitempty"`
	Env   bus.Position `json:"e"`
	Req   bus.Position `json:"r"`
	Runs  []runCursor  `json:"o,omitempty"`
}

// runCursor is the position in the output of a request that has not ended.
type runCursor struct {
	Request string       `json:"q"`
	Session string       `json:"s,omitempty"`
	After   bus.Position `json:"p,omitempty"`
	// Announce reports that stream.start has not been sent yet.
	Announce bool `json:"a,omitempty"`
}

// String returns the opaque form that clients keep.
func (c cursor) String() string {
	raw, err := json.Marshal(c)
	if err != nil {
		return "" // strings and flags always marshal
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}

func parseCursor(s string) (cursor, error) {
	var c cursor
	bad := func() (cursor, error) {
		f := fault.InvalidField("cursor", "This is not a cursor of the event stream. Connect without one, or with ?from=begin.")
		f.Code = "bad_cursor"
		return cursor{}, f
	}
	if len(s) > maxCursor {
		return bad()
	}
	raw, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || json.Unmarshal(raw, &c) != nil || len(c.Runs) > maxFollowed {
		return bad()
	}
	for i, r := range c.Runs {
		if r.Request == "" || slices.ContainsFunc(c.Runs[:i], func(o runCursor) bool { return o.Request == r.Request }) {
			return bad()
		}
	}
	return c, nil
}

// appendCursor appends the opaque form. It runs for every token, so it writes
// directly into a reused buffer.
func appendCursor(dst, scratch []byte, c *cursor) (out, usedScratch []byte) {
	b := append(scratch[:0], '{')
	if c.Epoch != "" {
		b = append(b, `"v":`...)
		b = appendString(b, c.Epoch)
		b = append(b, ',')
	}
	b = append(b, `"e":`...)
	b = appendString(b, string(c.Env))
	b = append(b, `,"r":`...)
	b = appendString(b, string(c.Req))
	for i, r := range c.Runs {
		if i == 0 {
			b = append(b, `,"o":[`...)
		} else {
			b = append(b, ',')
		}
		b = append(b, `{"q":`...)
		b = appendString(b, r.Request)
		if r.Session != "" {
			b = append(b, `,"s":`...)
			b = appendString(b, r.Session)
		}
		if r.After != "" {
			b = append(b, `,"p":`...)
			b = appendString(b, string(r.After))
		}
		if r.Announce {
			b = append(b, `,"a":true`...)
		}
		b = append(b, '}')
	}
	if len(c.Runs) > 0 {
		b = append(b, ']')
	}
	b = append(b, '}')
	return base64.RawURLEncoding.AppendEncode(dst, b), b
}
