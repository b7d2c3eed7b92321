package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lilac/internal/testkit/discordtest"
	"lilac/internal/testkit/e2e"
)

// lilac doctor reports what is missing on Discord, and which setting to change there.
func TestDoctorSaysWhatToClickOnDiscord(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		options discordtest.Options
		spoil   func(d *e2e.Discord)
		env     string
		fails   bool
		want    []string
	}{
		"nothing is missing": {want: []string{"ok", "Workshop"}},
		"the intent":         {options: discordtest.Options{WithoutMessageContent: true}, fails: true, want: []string{"Message Content Intent"}},
		"a permission": {spoil: func(d *e2e.Discord) { d.Deny(d.General, d.Self().ID, discordtest.SendMessages) }, fails: true, want: []string{
			"general", "Send Messages",
		}},
		"the token": {env: "DISCORD_TOKEN=another", fails: true, want: []string{"token", "Reset Token"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := e2e.NewDiscord(t, c.options)
			if c.spoil != nil {
				c.spoil(d)
			}
			dir := t.TempDir()
			cmd := exec.Command(e2e.Binary(t), "doctor")
			cmd.Env = slices.Concat([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "LILAC_DATA_DIR=" + filepath.Join(dir, "data"), "LILAC_MODEL=demo"}, d.Env(), []string{c.env})
			out, err := cmd.CombinedOutput()
			failed := slices.ContainsFunc(strings.Split(string(out), "\n"), func(line string) bool {
				return strings.HasPrefix(line, "failed") && strings.Contains(line, "discord")
			})
			if failed != c.fails || c.fails && err == nil {
				t.Errorf("failed: %v (%v)\n%s", failed, err, out)
			}
			for _, want := range c.want {
				if !strings.Contains(string(out), want) {
					t.Errorf("it does not say %q:\n%s", want, out)
				}
			}
		})
	}
}
