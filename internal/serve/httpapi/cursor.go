package httpapi

import (
	"encoding/base64"
	"encoding/json"
	"slices"

	"lilac/internal/engine/bus"
	"lilac/internal/foundation/fault"
)

// maxFollowed bounds how many requests one stream follows word by word at a
// time, and with it the size of a cursor. Beyond it a request still has its
// start and its end, which carries the whole text.
const maxFollowed = 64

// maxCursor is above what maxFollowed requests with long ids take.
const maxCursor = 64 << 10

// cursor stands for the positions of every topic that a stream merges: what
// is at or before them has been seen.
type cursor struct {
	// Epoch names the store, and the time of its bus, that the positions belong to.
	Epoch string       `json:"v,omitempty"`
	Env   bus.Position `json:"e"`
	Req   bus.Position `json:"r"`
	Runs  []runCursor  `json:"o,omitempty"`
}

// runCursor is the place in the output of a request that has not ended.
type runCursor struct {
	Request string       `json:"q"`
	Session string       `json:"s,omitempty"`
	After   bus.Position `json:"p,omitempty"`
	// Announce says that its stream.start is still to be sent.
	Announce bool `json:"a,omitempty"`
}

// String is the opaque form that clients keep.
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

// appendCursor writes the opaque form. It is written for every token, so it
// goes straight into a buffer that is used again.
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
