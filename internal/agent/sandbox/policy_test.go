package sandbox_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lilac/internal/agent/sandbox"
	"lilac/internal/foundation/fault"
)

// A bind must not lead through a directory that commands may write to: a command could
// replace the path by a link, and the next command would see the target of the link.
func TestWhatACommandMayWriteDecidesNothingThatIsShown(t *testing.T) {
	dir := t.TempDir()
	for _, made := range []string{"p/ws", "p/data", "ws", "away"} {
		if err := os.MkdirAll(filepath.Join(dir, made), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{"p/out": "away", "to-p": "p", "ws/out": "away"} {
		if err := os.Symlink(filepath.Join(dir, target), filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	shown := func(path string, writable bool) sandbox.Bind {
		return sandbox.Bind{Source: filepath.Join(dir, path), Writable: writable}
	}
	elsewhere := func(path string) sandbox.Bind {
		return sandbox.Bind{Source: filepath.Join(dir, path), Target: "/opt/elsewhere"}
	}
	for name, tt := range map[string]struct {
		workspace string
		binds     []sandbox.Bind
		refused   bool
	}{
		"the workspace":                   {"p/ws", []sandbox.Bind{shown("p", true)}, true},
		"the workspace by another name":   {"p/ws", []sandbox.Bind{shown("to-p", true)}, true},
		"what is shown before":            {"ws", []sandbox.Bind{shown("p/data", false), shown("p", true)}, true},
		"what is written before":          {"ws", []sandbox.Bind{shown("p/data", true), shown("p", true)}, true},
		"what is shown after":             {"ws", []sandbox.Bind{shown("p", true), elsewhere("p/data")}, true},
		"a link":                          {"ws", []sandbox.Bind{shown("p", true), shown("p/out", false)}, true},
		"a link by another name":          {"ws", []sandbox.Bind{shown("to-p/out", false), shown("p", true)}, true},
		"what is shown of the workspace":  {"p/ws", []sandbox.Bind{elsewhere("p/ws")}, true},
		"a link in the workspace":         {"ws", []sandbox.Bind{shown("ws/out", false)}, true},
		"control: apart":                  {"ws", []sandbox.Bind{shown("p", true), shown("away", false)}, false},
		"control: within what is shown":   {"ws", []sandbox.Bind{shown("p", false), shown("p/data", true)}, false},
		"control: a link that is nobodys": {"ws", []sandbox.Bind{shown("to-p", true)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := sandbox.Unconfined().Run(t.Context(), sandbox.Command{Argv: []string{"true"}},
				sandbox.Policy{Workspace: filepath.Join(dir, tt.workspace), Binds: tt.binds})
			if refused := fault.KindOf(err) == fault.Invalid; refused != tt.refused || err != nil && !refused {
				t.Errorf("refused is %v: %v", refused, err)
			}
		})
	}
}

// Paths are resolved again for every command, because a command may have created a link
// since the last one.
func TestALinkThatACommandMadeIsNotFollowed(t *testing.T) {
	confined(t, func(t *testing.T, box sandbox.Sandbox) {
		dir := t.TempDir()
		for _, made := range []string{"p/data", "ws", "victim"} {
			if err := os.MkdirAll(filepath.Join(dir, made), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, "victim/secret"), []byte("canary"), 0o644); err != nil {
			t.Fatal(err)
		}
		data := filepath.Join(dir, "p/data")
		policy := sandbox.Policy{Workspace: filepath.Join(dir, "ws"), Binds: []sandbox.Bind{{Source: filepath.Join(dir, "p"), Writable: true}}}
		if _, res := script(t, box, policy, "rmdir "+data+" && ln -s "+dir+"/victim "+data); res.ExitCode != 0 {
			t.Fatalf("control: the link is not there: %+v", res)
		}
		policy.Binds = append([]sandbox.Bind{{Source: data}}, policy.Binds...)
		var out strings.Builder
		_, err := box.Run(t.Context(), sandbox.Command{Argv: []string{"cat", filepath.Join(data, "secret")}, Stdout: &out}, policy)
		if fault.KindOf(err) != fault.Invalid || out.String() != "" {
			t.Errorf("%v, %q", err, out.String())
		}
	})
}
