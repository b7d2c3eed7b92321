package redisbus

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/foundation/event"
)

// assign gives events the right positions and omits those that the output has.
func TestIDIndexAssignsPositions(t *testing.T) {
	for name, c := range map[string]struct {
		output output // with the ids "old" at 1-7 and "older" at 1-6, if it is there
		most   int64
		items  []item
		places []string
		fresh  []string
	}{
		"a new output": {
			items:  []item{{id: "a"}, {id: "b"}},
			places: []string{"3-1", "3-2"}, fresh: []string{"a", "b"},
		},
		"one that an earlier process began": {
			output: output{exists: true, last: makePosition(1, 7)},
			items:  []item{{id: "a"}, {id: "old"}, {id: "b"}, {id: "a"}},
			places: []string{"3-8", "1-7", "3-9", "3-8"}, fresh: []string{"a", "b"},
		},
		"only what it has": {
			output: output{exists: true, last: makePosition(1, 7)},
			items:  []item{{id: "older"}, {id: "old"}},
			places: []string{"1-6", "1-7"},
		},
		"one that is gone goes on behind every place that was given out": {
			output: output{lost: true}, most: 40,
			items:  []item{{id: "a"}, {id: "b"}},
			places: []string{"3-41", "3-42"}, fresh: []string{"a", "b"},
		},
		"what was sent and not answered keeps its place": {
			output: output{exists: true, last: makePosition(1, 7)},
			items:  []item{{id: "a", pos: makePosition(2, 8)}, {id: "b", pos: makePosition(2, 9)}, {id: "c"}, {id: "a"}},
			places: []string{"2-8", "2-9", "3-10", "2-8"}, fresh: []string{"a", "b", "c"},
		},
		"also where the output is gone": {
			output: output{lost: true}, most: 40,
			items:  []item{{id: "a", pos: makePosition(2, 8)}, {id: "b"}},
			places: []string{"2-8", "3-9"}, fresh: []string{"a", "b"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := idIndex{outputs: make(map[event.Topic]*output), maxCount: c.most}
			o := &c.output
			o.topic, o.positions = "out.req.web:s:1", make(map[hashedID]int64)
			if o.exists {
				o.positions[hashID("old")], o.positions[hashID("older")] = makePosition(1, 7), makePosition(1, 6)
			}
			l.put(o)
			items := make([]*item, len(c.items))
			for i := range c.items {
				items[i] = &c.items[i]
				items[i].hash = hashID(items[i].id)
			}
			var fresh, places []string
			for _, it := range l.assign(o, items, 3, time.Time{}) {
				fresh = append(fresh, it.id)
			}
			for _, it := range items {
				places = append(places, entryID(it.pos))
			}
			if diff := cmp.Diff(c.places, places); diff != "" {
				t.Errorf("places (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.fresh, fresh); diff != "" {
				t.Errorf("to be sent (-want +got):\n%s", diff)
			}
			if l.ids != len(o.positions) {
				t.Errorf("it counts %d ids, and has %d", l.ids, len(o.positions))
			}
		})
	}
}

// The index removes idle outputs, and the least recently used ones when it has too many
// ids.
func TestIDIndexIsBounded(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	l := idIndex{outputs: make(map[event.Topic]*output)}
	add := func(name string, ids int, used time.Time) {
		o := &output{topic: event.Topic(name), usedAt: used, positions: make(map[hashedID]int64)}
		for i := range ids {
			o.positions[hashID(fmt.Sprint(i))] = int64(i)
		}
		l.put(o)
		l.evict()
	}
	has := func(names ...event.Topic) {
		t.Helper()
		ids := 0
		for _, name := range names {
			o := l.get(name)
			if o == nil {
				t.Errorf("%s is forgotten", name)
				continue
			}
			ids += len(o.positions)
		}
		if len(l.outputs) != len(names) || l.ids != ids {
			t.Errorf("it has %d outputs and %d ids, want %d and %d", len(l.outputs), l.ids, len(names), ids)
		}
	}
	add("a", 10, start)
	add("b", 20, start.Add(time.Second))
	add("b", 30, start.Add(time.Second)) // again
	has("a", "b")
	l.forgetIdle(start.Add(idIndexIdle))
	has("a", "b")
	l.forgetIdle(start.Add(idIndexIdle + 1))
	has("b")
	add("c", idIndexMax-40, start.Add(2*time.Second))
	has("b", "c")
	add("d", 11, start.Add(3*time.Second)) // one too many
	has("d")
	l.clear()
	has()
}
