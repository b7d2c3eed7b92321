//go:build unix

package e2e_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/freeport"
)

// startBlock is a code block of docs/start.md, and the block of text after it, if that shows its
// output.
type startBlock struct{ commands, output string }

func startBlocks(t *testing.T) (blocks []startBlock) {
	t.Helper()
	raw, err := os.ReadFile("../docs/start.md")
	if err != nil {
		t.Fatal(err)
	}
	last := ""
	for _, m := range regexp.MustCompile("(?ms)^## |^```(sh|text)\n(.*?)^```$").FindAllStringSubmatch(string(raw), -1) {
		switch m[1] {
		case "sh":
			blocks = append(blocks, startBlock{commands: m[2]})
		case "text":
			if last == "sh" {
				blocks[len(blocks)-1].output = m[2]
			}
		}
		last = m[1]
	}
	return blocks
}

// serveLine starts the server as the user of another terminal does, and waits until it is ready.
const serveLine = `setsid lilac serve >>"$HOME/serve.log" 2>&1 & disown; until lilac health >/dev/null 2>&1; do sleep 0.05; done`

// The commands of the page Start work as they are written, in their order.
func TestTheStepsOfThePageStartWork(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	needsCommands(t)
	home, bin := t.TempDir(), t.TempDir()
	if err := os.Symlink(e2e.Binary(t), filepath.Join(bin, "lilac")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		var server struct{ PID int }
		raw, err := os.ReadFile(filepath.Join(home, ".lilac", "server.json"))
		if err == nil && json.Unmarshal(raw, &server) == nil && server.PID > 1 {
			_ = syscall.Kill(server.PID, syscall.SIGKILL) // it may have ended
		}
		if log, err := os.ReadFile(filepath.Join(home, "serve.log")); err == nil && t.Failed() {
			t.Logf("log of the server:\n%s", log)
		}
	})
	env := []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + home, "LILAC_ADDR=" + freeport.Loopback(t), "LILAC_MODEL=demo"}
	blocks := startBlocks(t)
	if len(blocks) < 8 {
		t.Fatalf("the page has only %d blocks of commands", len(blocks))
	}
	for _, b := range blocks {
		if strings.HasPrefix(b.commands, "go install") {
			continue // the program is built
		}
		commands := regexp.MustCompile(`(?m)^lilac serve$`).ReplaceAllLiteralString(b.commands, serveLine)
		cmd := exec.Command("bash", "-eu", "-c", commands)
		cmd.Dir, cmd.Env = home, env
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v:\n%s\n%s", err, b.commands, out)
		}
		rest := string(out)
		for part := range strings.FieldsFuncSeq(b.output, func(r rune) bool { return r == '…' || r == '\n' }) {
			_, after, found := strings.Cut(rest, part)
			if !found {
				t.Errorf("the output has no %q:\n%s\n%s", part, b.commands, out)
			}
			rest = after
		}
	}
	e2e.Eventually(t, answerWithin, "the rule has handled the webhook", func() bool {
		show := exec.Command(filepath.Join(bin, "lilac"), "rules", "list")
		show.Env = env
		rules, err := show.Output()
		return err == nil && regexp.MustCompile(`(?m)^deployed .*agent +1 `).Match(rules)
	})
}
