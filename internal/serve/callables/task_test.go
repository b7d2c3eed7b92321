package callables_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"lilac/internal/core/task"
	"lilac/internal/foundation/fault"
	"lilac/internal/serve/callables"
	"lilac/internal/serve/toolserver"
)

// twoTasks has a task in the session s1 and one in s2, and remembers what it
// was told to do.
type twoTasks struct{ did []string }

func (f *twoTasks) Start(_ context.Context, o task.Spec) (task.Task, bool, error) {
	f.did = append(f.did, "start "+o.SessionID+" "+o.RequestID+" "+o.Command+o.Prompt)
	return task.Task{ID: "new", SessionID: o.SessionID, State: task.Running}, true, nil
}

func (f *twoTasks) Tasks(_ context.Context, session string, _ int, _ string) ([]task.Task, error) {
	f.did = append(f.did, "list "+session)
	return nil, nil
}

func (f *twoTasks) Task(_ context.Context, id string) (task.Task, error) {
	if id != "t1" && id != "t2" {
		return task.Task{}, fault.New(fault.NotFound, "There is no background task %q.", id)
	}
	return task.Task{ID: id, SessionID: strings.Replace(id, "t", "s", 1)}, nil
}

func (f *twoTasks) Output(_ context.Context, t task.Task, offset int64, _ int) (task.OutputPart, error) {
	f.did = append(f.did, "output "+t.ID)
	return task.OutputPart{Offset: offset}, nil
}

func (f *twoTasks) Stop(_ context.Context, id string, by task.Actor) (task.Task, error) {
	f.did = append(f.did, "stop "+id+" by "+string(by))
	return task.Task{ID: id}, nil
}

func TestTasksOfOtherSessionsAreNotThere(t *testing.T) {
	agent := toolserver.Caller{Grant: toolserver.Grant{RequestID: "web:s1:m", SessionID: "s1", Client: "web"}}
	operator := toolserver.Caller{Grant: toolserver.Grant{Operator: "ann"}}
	for _, c := range []struct {
		caller    toolserver.Caller
		id, input string
		did       string
		kind      fault.Kind
	}{
		{agent, "task.start", `{"command":"make"}`, "start s1 web:s1:m make", ""},
		{agent, "task.list", `{}`, "list s1", ""},
		{agent, "task.output", `{"id":"t1"}`, "output t1", ""},
		{agent, "task.stop", `{"id":"t1"}`, "stop t1 by agent", ""},
		{agent, "task.output", `{"id":"t2"}`, "", fault.NotFound},
		{agent, "task.stop", `{"id":"t2"}`, "", fault.NotFound},
		{agent, "task.stop", `{"id":"t3"}`, "", fault.NotFound},
		{operator, "task.list", `{}`, "list ", ""},
		{operator, "task.stop", `{"id":"t2"}`, "stop t2 by person", ""},
		{operator, "task.start", `{"command":"make"}`, "", fault.Denied},
		{toolserver.Caller{}, "task.list", `{}`, "", fault.Denied},
		{toolserver.Caller{}, "task.output", `{"id":"t1"}`, "", fault.NotFound},
	} {
		fake := &twoTasks{}
		all := callables.Background(fake)
		at := slices.IndexFunc(all, func(one toolserver.Callable) bool { return one.ID == c.id })
		_, err := all[at].Call(t.Context(), c.caller, json.RawMessage(c.input))
		if did := strings.Join(fake.did, ", "); did != c.did || (c.kind == "") != (err == nil) || err != nil && fault.KindOf(err) != c.kind {
			t.Errorf("%s %s of %+v: did %q, %v", c.id, c.input, c.caller.Grant, did, err)
		}
	}
}
