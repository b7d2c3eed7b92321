package companion

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/redis/rueidis"

	"lilac/internal/engine/delivery"
	"lilac/internal/foundation/event"
)

// An entry of a mirrored stream has the fields id, type, and event, which is the whole
// event in JSON.
const (
	fieldID    = "id"
	fieldType  = "type"
	fieldEvent = "event"
)

// entryID returns the id of the entry of a position.
func entryID(seq int64) string { return strconv.FormatInt(seq, 10) + "-0" }

// parseEntryID returns the position in the id of an entry, and whether an entry of ours
// can have that id.
func parseEntryID(id string) (seq int64, ok bool) {
	head, ok := strings.CutSuffix(id, "-0")
	if !ok {
		return 0, false
	}
	seq, err := strconv.ParseInt(head, 10, 64)
	return seq, err == nil && seq >= 0
}

// encode returns the event in JSON, as encoding/json would, but without reflection,
// because it runs for every piece of an answer.
func encode(r *delivery.Record) string {
	e := r.Event
	size := len(e.ID) + len(e.Topic) + len(e.Type) + len(e.Key) + len(e.Lane) + len(e.Data) + 128
	for name, value := range e.Headers {
		size += len(name) + len(value) + 6
	}
	out := appendText(append(make([]byte, 0, size), `{"id":`...), e.ID)
	out = appendText(append(out, `,"topic":`...), string(e.Topic))
	out = appendText(append(out, `,"type":`...), string(e.Type))
	out = strconv.AppendInt(append(out, `,"ts":`...), e.TS, 10)
	if e.Key != "" {
		out = appendText(append(out, `,"key":`...), e.Key)
	}
	if e.Lane != "" {
		out = appendText(append(out, `,"lane":`...), e.Lane)
	}
	if len(e.Headers) > 0 {
		out = append(out, `,"headers":`...)
		before := byte('{')
		for name, value := range e.Headers {
			out = appendText(append(out, before), name)
			out = appendText(append(out, ':'), value)
			before = ','
		}
		out = append(out, '}')
	}
	out = append(out, `,"data":`...)
	if len(e.Data) == 0 {
		out = append(out, "null"...)
	}
	out = append(out, e.Data...)
	return rueidis.BinaryString(append(out, '}'))
}

// appendText appends s as a JSON string.
func appendText(out []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			quoted, _ := json.Marshal(s) // cannot fail for a string
			return append(out, quoted...)
		}
	}
	return append(append(append(out, '"'), s...), '"')
}

// ends reports whether an event is the last one of an output.
func ends(e event.Event) bool { return e.Type == event.OutputResponseText }
