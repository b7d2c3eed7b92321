package builtin_test

import (
	"os"
	"path/filepath"
	"testing"
)

// What read shows is what edit and write change: a link that is reached through
// another one means what it means to every other program.
func TestLinksBehindLinksLeadWhereTheyLeadOthers(t *testing.T) {
	b := newBench(t, nil)
	b.put("releases/1/main", "")
	b.put("releases/shared/config", "debug=1\n")
	b.put("shared/config", "of somebody else: debug=1\n")
	for link, target := range map[string]string{
		"current":             "releases/1",
		"releases/1/config":   "../shared/config",
		"releases/1/new":      "./../shared//new",
		"releases/1/here":     ".",
		"releases/1/out":      "../../..",
		"releases/1/absolute": "/etc",
		"releases/1/round":    "../../current/round",
	} {
		if err := os.Symlink(target, filepath.Join(b.dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	expect(t, b.call("edit", args{"path": "current/config", "old_string": "debug=1", "new_string": "debug=0"}), false, "Edited releases/shared/config")
	expect(t, b.call("read", args{"path": "current/config"}), false, "debug=0")
	expect(t, b.call("write", args{"path": "current/here/here/config", "content": "debug=2\n"}), false, "Replaced")
	expect(t, b.call("write", args{"path": "current/new", "content": "n"}), false, "Created")
	expect(t, b.call("write", args{"path": "current/here/a/b", "content": "n"}), false, "Created")
	for rel, want := range map[string]string{
		"releases/shared/config": "debug=2\n", "shared/config": "of somebody else: debug=1\n", "releases/shared/new": "n", "releases/1/a/b": "n",
	} {
		if got := b.get(rel); got != want {
			t.Errorf("%s is %q, want %q", rel, got, want)
		}
	}
	expect(t, b.call("write", args{"path": "current/out/x", "content": "n"}), true, "out of the workspace")
	expect(t, b.call("write", args{"path": "current/absolute/x", "content": "n"}), true, "out of the workspace")
	expect(t, b.call("write", args{"path": "current/round", "content": "n"}), true, "circle")
	expect(t, b.call("write", args{"path": "current/main/x", "content": "n"}), true, "a file where a directory is needed")
}
