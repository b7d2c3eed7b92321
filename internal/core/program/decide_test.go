package program_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/core/environment"
	"lilac/internal/core/program"
	"lilac/internal/foundation/event"
)

func TestParse(t *testing.T) {
	now := time.UnixMilli(5000)
	own := func(id string, typ event.Type, at int64, payload string) event.EnvEvent {
		e := event.EnvEvent{ID: id, Type: typ, Timestamp: at, Metadata: event.EnvMetadata{EnvName: "spool", Source: "env"}}
		if payload != "" {
			e.Payload = []byte(payload)
		}
		return environment.FromProgram(e)
	}
	inSession := own("source:spool:a", "deploy.done", 5000, "")
	inSession.Metadata.TriggerSessionID = "s1"
	for _, c := range []struct {
		name, line string
		want       event.EnvEvent
		id         string
		err        string
	}{
		{name: "an id is enough", line: `{"id":"1"}`, want: own("source:spool:1", event.SourceReceived, 5000, ""), id: "1"},
		{name: "every field", line: `{"id":"a/b","type":"deploy.done","timestamp":7,"payload":{"x":1}}`, want: own("source:spool:a/b", "deploy.done", 7, `{"x":1}`), id: "a/b"},
		{name: "a session", line: `{"id":"a","type":"deploy.done","session":"s1"}`, want: inSession, id: "a"},
		{name: "a byte order mark", line: "\xef\xbb\xbf" + `{"id":"1"}`, want: own("source:spool:1", event.SourceReceived, 5000, ""), id: "1"},
		{name: "fields of later versions", line: `{"id":"1","new":true}`, want: own("source:spool:1", event.SourceReceived, 5000, ""), id: "1"},
		{name: "the program cannot choose the rights", line: `{"id":"1","metadata":{"grant":[],"origin_type":"user_query"}}`, want: own("source:spool:1", event.SourceReceived, 5000, ""), id: "1"},
		{name: "no JSON", line: `hello`, err: "not an event in JSON"},
		{name: "a list", line: `[]`, err: "not an event in JSON"},
		{name: "two objects", line: `{"id":"1"}{"id":"2"}`, err: "not an event in JSON"},
		{name: "a field of a wrong type still has its id", line: `{"id":"7","timestamp":"now"}`, id: "7", err: "not an event in JSON"},
		{name: "no id", line: `{"payload":1}`, err: "needs an id"},
		{name: "an id with a space", line: `{"id":"a b"}`, err: "needs an id"},
		{name: "an id with a line end", line: `{"id":"a\nack 2"}`, err: "needs an id"},
		{name: "an id that is too long", line: `{"id":"` + strings.Repeat("x", 129) + `"}`, err: "needs an id"},
		{name: "an invalid type", line: `{"id":"1","type":"Deploy Done"}`, id: "1", err: "type"},
		{name: "a prompt", line: `{"id":"1","type":"user_query","payload":{}}`, id: "1", err: "Only Lilac itself"},
		{name: "a stop", line: `{"id":"1","type":"user_stop"}`, id: "1", err: "Only Lilac itself"},
		{name: "an event of a session", line: `{"id":"1","type":"session.x"}`, id: "1", err: "Only Lilac itself"},
		{name: "an event of another source", line: `{"id":"1","type":"webhook.received"}`, id: "1", err: "Only Lilac itself"},
		{name: "the end of a task", line: `{"id":"1","type":"background_task.completed"}`, id: "1", err: "Only Lilac itself"},
		{name: "an event of the bus", line: `{"id":"1","type":"cmd.request.message"}`, id: "1", err: "belongs to the bus"},
		{name: "a time that is none", line: `{"id":"1","timestamp":-1}`, id: "1", err: "timestamp"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, id, err := program.Parse("spool", []byte(c.line), now)
			if id != c.id {
				t.Errorf("id %q, want %q", id, c.id)
			}
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("error %v, want one about %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, e); diff != "" {
				t.Error(diff)
			}
			if !environment.FromStrangers(e) {
				t.Error("the event has the rights of Lilac's own events")
			}
		})
	}
}

func TestPause(t *testing.T) {
	var got []time.Duration
	for failures := range 10 {
		got = append(got, program.Pause(failures+1)/time.Second)
	}
	if diff := cmp.Diff([]time.Duration{1, 2, 4, 8, 16, 32, 60, 60, 60, 60}, got); diff != "" {
		t.Error(diff)
	}
}
