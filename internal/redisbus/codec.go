package redisbus

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"lilac/internal/db"
	"lilac/internal/delivery"
	"lilac/internal/event"
	"lilac/internal/fault"
)

// head is an event without its topic, its id and its data, which keep their
// own fields: the data comes back byte for byte.
type head struct {
	Type    event.Type    `json:"type"`
	TS      int64         `json:"ts"`
	Key     string        `json:"key,omitempty"`
	Lane    string        `json:"lane,omitempty"`
	Headers event.Headers `json:"headers,omitempty"`
}

func encodeHead(e event.Event) ([]byte, error) {
	out, err := json.Marshal(head{Type: e.Type, TS: e.TS, Key: e.Key, Lane: e.Lane, Headers: e.Headers})
	if err != nil {
		return nil, fmt.Errorf("encode event %q: %w", e.ID, err)
	}
	return out, nil
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

// sealed is the head of an event as an entry holds it: in a line below it stands
// the checksum of the whole entry, so that damage is noticed.
func sealed(e event.Event, encoded []byte, appended string) string {
	return string(encoded) + "\n" + entrySum(e.Topic, e.ID, encoded, e.Data, appended)
}

func entrySum(topic event.Topic, id string, head, data []byte, appended string) string {
	return strconv.FormatInt(db.Checksum([]byte(topic), []byte(id), head, data, []byte(appended)), 16)
}

// decodeFields reads an entry, the opposite of what the append script writes.
func decodeFields(topic event.Topic, f map[string]string) (event.Event, error) {
	encoded, sum, is := strings.Cut(f["h"], "\n")
	id, data := f["i"], []byte(f["d"])
	// Entries of before there were checksums have none.
	if is && sum != entrySum(topic, id, []byte(encoded), data, f["a"]) || id == "" {
		return event.Event{}, fmt.Errorf("decode event %q: it is not as it was written", id)
	}
	return decodeEvent(topic, id, []byte(encoded), data)
}

// damagedEntry is the fault of an entry that is not one of ours.
func damagedEntry(topic event.Topic, seq int64) error {
	return &delivery.Damaged{Seq: seq, Err: &fault.Error{
		Kind: fault.Internal, Code: db.CodeDamagedRow,
		Message: fmt.Sprintf("The entry %s of the topic %s in Redis is damaged. It was not used.", entryID(seq), topic),
	}}
}
