package builtin_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lilac/internal/agent/builtin"
	"lilac/internal/agent/sandbox"
	"lilac/internal/agent/tool"
	"lilac/internal/testkit/effort"
)

// in runs a command for a session.
func (b *bench) in(session, command string) string {
	b.t.Helper()
	raw, err := json.Marshal(args{"command": command})
	if err != nil {
		b.t.Fatal(err)
	}
	res, err := b.tools["bash"].Run(b.t.Context(), tool.Call{ID: "c", Input: raw, RequestID: "web:s:1", SessionID: session, Client: "web", Workspace: b.dir})
	if err != nil {
		b.t.Fatal(err)
	}
	return strings.TrimSpace(res.Text)
}

// leak sets a start file in one session's home, and returns whether a shell of another session
// runs it. Git's own configuration file is read in the same way.
func leak(b *bench) bool {
	b.in("a", `echo 'echo from another session' > ~/.profile; git config --global alias.st '!echo from another session' 2>/dev/null`)
	out := b.in("b", `bash -lc true; git st 2>/dev/null; cat ~/.profile 2>/dev/null`)
	return strings.Contains(out, "from another session")
}

// The homes are in a hidden directory, as in the program: a command sees only its own.
func TestSessionsDoNotShareAHome(t *testing.T) {
	effort.SkipSlow(t)
	boxes(t, func(t *testing.T, box sandbox.Sandbox) {
		data := t.TempDir()
		home := func(session string) (string, error) {
			dir := filepath.Join(data, "homes", session)
			return dir, os.MkdirAll(dir, 0o700)
		}
		b := newBenchWith(t, builtin.Options{Sandbox: box, Home: home, Hidden: []string{data}})
		if leak(b) {
			t.Error("a file in the home of one session ran in another")
		}
		if got := b.in("a", `cd && cat .profile`); !strings.Contains(got, "from another session") {
			t.Errorf("a session does not find its own home again: %q", got)
		}
		if got := b.in("a", `pwd`); got != b.dir {
			t.Errorf("commands start in %s, want the workspace", got)
		}
		if got := b.in("b", `ls ~ "`+data+`" 2>&1`); box.Name() != "off" && strings.Contains(got, "homes") {
			t.Errorf("a command sees the directory of the homes:\n%s", got)
		}
		shared := newBench(t, box)
		if !leak(shared) {
			t.Error("control: sessions that share a home do not notice each other: the test shows nothing")
		}
	})
}
