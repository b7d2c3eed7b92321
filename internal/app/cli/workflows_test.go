package cli

import (
	"strings"
	"testing"
)

func TestWorkflowsAreListedShownAndCancelled(t *testing.T) {
	const one = `{"id":"w1","state":"waiting","summary":"ask Bob\u001b[2J","completion":"all","origin":{"requestId":"discord:10:1","sessionId":"10","client":"discord"},
"tasks":[{"id":"t1","kind":"discord.wait_for_reply","description":"Bob's answer","state":"resolved","result":{"outcome":"reply","message":{"userName":"bob","text":"Tuesday"}}}],"createdAt":1,"due":1700000000000}`
	env := fake(t, map[string]string{
		"GET /workflows":            `{"workflows":[` + one + `,{"id":"w2","state":"damaged","detail":"The row w2 is damaged."}]}`,
		"GET /workflows/w1":         one,
		"POST /workflows/w1/cancel": strings.Replace(one, `"waiting"`, `"cancelled"`, 1),
	})
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"list"}, []string{"ID", "w1", "waiting", "discord 10", "ask Bob", "w2  damaged", "The row w2 is damaged."}},
		{[]string{"list", "--all", "--session", "10", "--json"}, []string{`"workflows"`}},
		{[]string{"show", "w1"}, []string{"waiting", "ask Bob", "discord:10:1", "t1  discord.wait_for_reply  resolved", "Bob's answer", "bob: Tuesday", "2023-11-1"}},
		{[]string{"show", "w1", "--json"}, []string{`"id": "w1"`}},
		{[]string{"cancel", "w1", "--reason", "no"}, []string{"cancelled"}},
	} {
		out, errOut, code := call(t, "", env, append([]string{"workflows"}, c.args...)...)
		for _, want := range c.want {
			if code != 0 || !strings.Contains(out, want) {
				t.Errorf("%q: %d, %q is not in\n%s%s", c.args, code, want, out, errOut)
			}
		}
		if strings.Contains(out, "\x1b") {
			t.Errorf("%q: controls reach the terminal", c.args)
		}
	}
	if _, errOut, code := call(t, "", env, "workflows", "show"); code == 0 || errOut == "" {
		t.Error("show without an id does something")
	}
}
