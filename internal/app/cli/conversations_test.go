package cli

import (
	"strings"
	"testing"
)

// Damaged messages and journal entries are marked at their positions, without an invented time.
func TestDamagedMessagesAndEntriesAreNamed(t *testing.T) {
	const why = "The row bad is damaged."
	env := fake(t, map[string]string{
		"GET /sessions/s1/messages": `{"messages":[{"role":"user","content":"hello"},{"role":"system","content":"` + why + `","damaged":true}]}`,
		"GET /requests/r1": `{"id":"r1","state":"done","createdAt":1000,"entries":[{"seq":1,"kind":"damaged","detail":"` + why + `"},
			{"seq":2,"at":3000,"step":1,"kind":"paused","data":{"question":"Go on?"}}]}`,
	})
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"sessions", "show", "s1"}, "── user\nhello\n── unreadable\n" + why + "\n"},
		{[]string{"requests", "show", "r1"}, "\n           " + why + "\n   2.000s  step 1   paused       Go on?\n"},
	} {
		if out, errOut, code := call(t, "", env, c.args...); code != 0 || !strings.Contains(out, c.want) {
			t.Errorf("%q: %d, %q is not in\n%s%s", c.args, code, c.want, out, errOut)
		}
	}
}
