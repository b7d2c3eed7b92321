package redisbus

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

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

// sealed is an event as its entry holds it, in four lines: the head, when it was
// appended (ms), the checksum of the whole entry, and the data, byte for byte.
func sealed(e event.Event, encoded []byte, appended string) string {
	sum := entrySum(e.Topic, e.ID, encoded, e.Data, appended)
	out := make([]byte, 0, len(encoded)+len(appended)+len(sum)+len(e.Data)+3)
	out = append(append(out, encoded...), '\n')
	out = append(append(out, appended...), '\n')
	out = append(append(out, sum...), '\n')
	return rueidis.BinaryString(append(out, e.Data...))
}

func entrySum(topic event.Topic, id string, head, data []byte, appended string) string {
	return strconv.FormatInt(db.Checksum([]byte(topic), []byte(id), head, data, []byte(appended)), 16)
}

// unsealed is the opposite of sealed. It does not look at the sum.
func unsealed(entry string) (head, appended, sum, data string) {
	head, entry, _ = strings.Cut(entry, "\n")
	appended, entry, _ = strings.Cut(entry, "\n")
	sum, data, _ = strings.Cut(entry, "\n")
	return head, appended, sum, data
}

// decodeFields reads an entry, the opposite of what the append script writes.
func decodeFields(topic event.Topic, f map[string]string) (event.Event, error) {
	id := f["i"]
	head, appended, sum, data := unsealed(f["e"])
	if id == "" || sum != entrySum(topic, id, []byte(head), []byte(data), appended) {
		return event.Event{}, fmt.Errorf("decode event %q: it is not as it was written", id)
	}
	return decodeEvent(topic, id, []byte(head), []byte(data))
}

// damagedEntry is the fault of an entry that is not one of ours.
func damagedEntry(topic event.Topic, seq int64) error {
	return &delivery.Damaged{Seq: seq, Err: &fault.Error{
		Kind: fault.Internal, Code: db.CodeDamagedRow,
		Message: fmt.Sprintf("The entry %s of the topic %s in Redis is damaged. It was not used.", entryID(seq), topic),
	}}
}
