package session

import (
	"encoding/json"
	"testing"
	"time"
)

// Time in the queue, in a pause and between two processes does not count as working time.
func TestOnlyWorkingTimeCounts(t *testing.T) {
	begin := []StoryEntry{{At: 0, Kind: kindQueued}, {At: 5, Kind: kindStarted}, {At: 10, Kind: kindModelFailed}, {At: 30, Kind: kindCompacted}}
	calls := []StoryEntry{{At: 100, Kind: "call"}, {At: 500, Kind: "task"}, {At: 900, Kind: "call"}}
	for name, c := range map[string]struct {
		stop, others []StoryEntry
		goesOn       string
		worked       int64 // milliseconds from the start to the end
	}{
		"a pause":                          {[]StoryEntry{{At: 35, Kind: kindPaused}}, nil, kindResumed, 30},
		"a pause in which a task works":    {[]StoryEntry{{At: 35, Kind: kindPaused}}, calls, kindResumed, 30},
		"a restart":                        {nil, nil, kindRecovered, 25},
		"a restart behind what a task did": {nil, calls, kindRecovered, 25},
		"control: it works":                {nil, calls, kindModelFailed, 995},
	} {
		entries := append(append(append([]StoryEntry{}, begin...), c.stop...), c.others...)
		entries = append(entries, StoryEntry{At: 1000, Kind: c.goesOn})
		for i := range entries {
			entries[i].Data = json.RawMessage("{}")
		}
		p, err := readProgress(entries, func(int) (bool, error) { return false, nil })
		if err != nil {
			t.Fatal(err)
		}
		if p.worked.Milliseconds() != c.worked {
			t.Errorf("%s: it worked for %v, want %dms", name, p.worked, c.worked)
		}
	}
}

// The working time in an entry counts, whatever the wall clock showed.
func TestAJumpOfTheClockIsNoWork(t *testing.T) {
	hour := time.Hour.Milliseconds()
	p, err := readProgress([]StoryEntry{
		{At: 0, Kind: kindStarted},
		{At: 10, Kind: kindModelFailed, Data: json.RawMessage(`{"workedMs":10}`)},
		{At: hour, Kind: kindModelFailed, Data: json.RawMessage(`{"workedMs":30}`)},
		{At: hour + 5, Kind: kindCompacted, Data: json.RawMessage(`{}`)},
	}, func(int) (bool, error) { return false, nil })
	if err != nil || p.worked != 35*time.Millisecond {
		t.Errorf("it worked for %v (%v)", p.worked, err)
	}
}
