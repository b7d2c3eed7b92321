package cli

import (
	"strings"
	"testing"
)

const oneTask = `{"id":"t1","sessionId":"s1","requestId":"web:s1:m","kind":"command","description":"all \u001b[31mtests","command":"make test","state":"failed","reason":"The command ended with exit code 2.","exitCode":2,"result":"2 failed","createdAt":1000,"endedAt":3500}`

func TestTasksAreListedShownReadAndStopped(t *testing.T) {
	env := fake(t, map[string]string{
		"GET /tasks": `{"tasks":[` + oneTask + `]}`, "GET /tasks/t1": oneTask, "POST /tasks/t1/stop": oneTask,
		"GET /tasks/t1/output": `{"text":"ok\n2 failed\n","offset":0,"next":12,"bytes":12,"first":0,"state":"failed"}`,
	})
	for _, c := range []struct{ args, want string }{
		{"list", "t1  failed  command"},
		{"list", "2.5s"},
		{"list --json", `"exitCode": 2`},
		{"show t1", "reason       The command ended with exit code 2."},
		{"show t1", "\n2 failed\n"},
		{"output t1", "ok\n2 failed\n"},
		{"output t1 --follow", "ok\n2 failed\n"},
		{"output t1 --json", `"bytes": 12`},
		{"stop t1", "failed"},
	} {
		out, errOut, code := call(t, "", env, append([]string{"tasks"}, strings.Fields(c.args)...)...)
		if code != 0 || !strings.Contains(out, c.want) || strings.Contains(out, "\x1b") {
			t.Errorf("tasks %s: %d\n%s%s", c.args, code, out, errOut)
		}
	}
	env = fake(t, map[string]string{"GET /tasks": `{"tasks":[{"id":"t2","state":"damaged","reason":"The row t2 is damaged."}]}`})
	if out, errOut, code := call(t, "", env, "tasks", "list"); code != 0 || !strings.Contains(out, "t2  damaged        -        -         The row t2 is damaged.") {
		t.Errorf("a damaged one: %d\n%s%s", code, out, errOut)
	}
	env = fake(t, map[string]string{"GET /tasks": `{"tasks":[` + oneTask + `],"next":"1000:t1"}`, "GET /workflows": `{"workflows":[],"next":"1000:w1"}`})
	for list, place := range map[string]string{"tasks": "1000:t1", "workflows": "1000:w1"} {
		if out, errOut, code := call(t, "", env, list, "list"); code != 0 || errOut != "For older entries, use --before "+place+"\n" || strings.Contains(out, "older") {
			t.Errorf("a list of %s that goes on: %d\n%s%s", list, code, out, errOut)
		}
	}
	if _, errOut, code := call(t, "", env, "tasks", "output", "t1", "--follow", "--json"); code != 2 || errOut == "" {
		t.Errorf("--follow and --json: %d %s", code, errOut)
	}
}
