package redisbus

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/redis/rueidis"

	"lilac/internal/engine/db"
	"lilac/internal/engine/delivery"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

// head is an event without its topic, id and data. These are stored separately, so that
// the data stays identical byte for byte.
type head struct {
	Type    event.Type    `json:"type"`
	TS      int64         `json:"ts"`
	Key     string        `json:"key,omitempty"`
	Lane    string        `json:"lane,omitempty"`
	Headers event.Headers `json:"headers,omitempty"`
}

// encodeHead encodes the head of an event, with spare capacity for the rest of the entry
// (see [sealed]). The result is what encoding/json would produce. It avoids reflection
// for speed, because it runs for every piece of an answer.
func encodeHead(e event.Event) []byte {
	size := len(e.Type) + len(e.Key) + len(e.Lane) + len(e.Data) + 128
	for name, value := range e.Headers {
		size += len(name) + len(value) + 6
	}
	out := append(make([]byte, 0, size), `{"type":`...)
	out = appendText(out, string(e.Type))
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
	return append(out, '}')
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

func decodeEvent(topic event.Topic, id string, encoded, data []byte) (event.Event, error) {
	var h head
	if err := json.Unmarshal(encoded, &h); err != nil {
		return event.Event{}, fmt.Errorf("decode event %q: %w", id, err)
	}
	return event.Event{
		ID: id, Topic: topic, Type: h.Type, TS: h.TS, Key: h.Key, Lane: h.Lane, Headers: h.Headers, Data: data,
	}, nil
}

func sumEvent(topic event.Topic, id string, head, data []byte) int64 {
	return db.Checksum([]byte(topic), []byte(id), head, data)
}

// sealed returns the entry of an event: four lines with the head, the time of the append
// (Unix ms), the checksum of the whole entry, and the data. It appends to head.
func sealed(e event.Event, head []byte, appended int64) string {
	out := strconv.AppendInt(append(head, '\n'), appended, 10)
	sum := entrySum(e.Topic, e.ID, rueidis.BinaryString(head), rueidis.BinaryString(e.Data), rueidis.BinaryString(out[len(head)+1:]))
	out = strconv.AppendInt(append(out, '\n'), sum, 16)
	return rueidis.BinaryString(append(append(out, '\n'), e.Data...))
}

func entrySum(topic event.Topic, id, head, data, appended string) int64 {
	return db.ChecksumText(string(topic), id, head, data, appended)
}

// unsealed splits an entry that sealed built. It does not verify the checksum.
func unsealed(entry string) (head, appended, sum, data string) {
	head, entry, _ = strings.Cut(entry, "\n")
	appended, entry, _ = strings.Cut(entry, "\n")
	sum, data, _ = strings.Cut(entry, "\n")
	return head, appended, sum, data
}

// decodeFields verifies and decodes the fields of an entry that the append script wrote.
func decodeFields(topic event.Topic, f map[string]string) (event.Event, error) {
	id := f["i"]
	head, appended, sum, data := unsealed(f["e"])
	if id == "" || sum != strconv.FormatInt(entrySum(topic, id, head, data, appended), 16) {
		return event.Event{}, fmt.Errorf("decode event %q: it is not as it was written", id)
	}
	return decodeEvent(topic, id, []byte(head), []byte(data))
}

// damagedEntry returns the error for an entry whose checksum or content is wrong.
func damagedEntry(topic event.Topic, seq int64) error {
	return &delivery.Damaged{Seq: seq, Err: &fault.Error{
		Kind: fault.Internal, Code: db.CodeDamagedRow,
		Message: fmt.Sprintf("The entry %s of the topic %s in Redis is damaged. It was not used.", entryID(seq), topic),
	}}
}
