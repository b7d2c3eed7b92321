package cli

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lilac/internal/foundation/fault"
	"lilac/internal/operate/setup"
	"lilac/internal/testkit/discordtest"
)

// configOf returns the path of the configuration in the home directory of env, and makes env select
// it.
func configOf(env map[string]string) string {
	env["LILAC_DATA_DIR"] = filepath.Join(env["HOME"], ".lilac")
	env["LILAC_CONFIG"] = filepath.Join(env["HOME"], ".lilac", "config.yaml")
	return env["LILAC_CONFIG"]
}

func TestSetupRunsUnattended(t *testing.T) {
	env := modelHost(t, false)
	address := env["OPENAI_BASE_URL"]
	file := configOf(env)
	delete(env, "OPENAI_API_KEY")
	delete(env, "OPENAI_BASE_URL")
	given := []string{"setup", "--provider", "house", "--base-url", address, "--model", "gpt-5", "--api-key-file", "-"}
	out, errOut, code := call(t, "key-of-the-test\n", env, append(given, "--print")...)
	if want := "providers:\n  house:\n    type: openai\n    baseURL: " + address + "\n    apiKey: ${HOUSE_API_KEY}\n\nmodel: house/gpt-5\n"; code != 0 || out != want {
		t.Errorf("--print: exit code %d\n%s%s", code, out, errOut)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("--print wrote the file")
	}
	out, errOut, code = call(t, "key-of-the-test\n", env, given...)
	if code != 0 || !strings.Contains(out, "+ model: house/gpt-5") || !strings.Contains(out, "Secrets to store") || !strings.Contains(errOut, "the model understood the result") || strings.Contains(out+errOut, "key-of-the-test") {
		t.Errorf("exit code %d\n%s%s", code, out, errOut)
	}
	if out, errOut, code = call(t, "", env, "models", "test"); code != 0 || !strings.Contains(out, "house/gpt-5") {
		t.Errorf("the model that was set up: exit code %d\n%s%s", code, out, errOut)
	}
	if out, _, code = call(t, "key-of-the-test\n", env, given...); code != 0 || !strings.Contains(out, "nothing changes") {
		t.Errorf("the same again: exit code %d\n%s", code, out)
	}
	if out, errOut, code = call(t, "", env, "setup", "--rule", "weekdays", "--time", "07:15"); code != 0 || !strings.Contains(out, "cron: 15 7 * * 1-5") || !strings.Contains(errOut, "Dry run: the rule every-weekday") {
		t.Errorf("a rule: exit code %d\n%s%s", code, out, errOut)
	}
}

func TestSetupWritesNothingIfATestFails(t *testing.T) {
	env := modelHost(t, true)
	file := configOf(env)
	for _, args := range [][]string{
		{"setup", "--provider", "openai", "--model", "gpt-5"},
		{"setup", "--provider", "openai"},
		{"setup", "--rule", "weekdays", "--time", "99"},
		{"setup"},
	} {
		if out, errOut, code := call(t, "", env, args...); code == 0 {
			t.Errorf("%v succeeded\n%s%s", args, out, errOut)
		}
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("the file was written")
	}
}

func TestSetupAsks(t *testing.T) {
	discord := discordtest.New(t, discordtest.Options{})
	discord.Channel(discord.Guild("Home", discord.User("owner")), "general")
	home := t.TempDir()
	env := map[string]string{"HOME": home}
	file := configOf(env)
	if err := os.MkdirAll(filepath.Join(home, ".lilac"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("surface: {discord: {apiURL: "+discord.APIURL+"}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	// No such provider, then the demo model; a wrong token, then Discord in the first server; a wrong
	// time, then a rule that is not saved.
	typed := strings.Join([]string{"9", "demo", "7", "y", "wrong", "y", discordtest.DefaultToken, "1", "", "2", "Team", "25:00", "", "2", "Team", "08:00", "n"}, "\n") + "\n"
	var out, errOut strings.Builder
	c := &cli{printer: printer{out: &out, err: &errOut}, locator: locator{getenv: func(name string) string { return env[name] }}, in: strings.NewReader(typed)}
	s := &setupRun{cli: c, store: setup.Store{Path: file, DataDir: filepath.Join(home, ".lilac")}}
	var err error
	if s.before, err = s.store.Read(); err != nil {
		t.Fatal(err)
	}
	if err := s.ask(context.Background()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(text), "model: demo") || !strings.Contains(string(text), "${DISCORD_TOKEN}") || strings.Contains(string(text), "rules") {
		t.Errorf("error %v, the file is\n%s\nit printed\n%s%s", err, text, out.String(), errOut.String())
	}
	if n := strings.Count(out.String(), "Try this step again?"); n != 2 || !strings.Contains(out.String(), "Enter a number from 1 to 7") {
		t.Errorf("it offered %d times to try again\n%s%s", n, out.String(), errOut.String())
	}
}

// Ctrl-C ends the setup at a question. The read of a terminal cannot be interrupted, like that of
// this pipe.
func TestSetupEndsAtAQuestion(t *testing.T) {
	for question, usual := range map[string]string{"Provider (Enter: skip): ": "", "Model [gpt-5.4]: ": "2\n", "API key (not shown): ": "2\n\n"} {
		env := map[string]string{"HOME": t.TempDir()}
		file := configOf(env)
		in, typed := io.Pipe()
		ctx, interrupt := context.WithCancel(t.Context())
		var out strings.Builder
		c := &cli{in: in, printer: printer{out: untilWritten{&out, question, interrupt}, err: io.Discard}, locator: locator{getenv: func(name string) string { return env[name] }}}
		s := &setupRun{cli: c, store: setup.Store{Path: file, DataDir: filepath.Dir(file)}, setupFlags: setupFlags{noTest: true}}
		go func() { _, _ = io.WriteString(typed, usual) }() // the end of the test closes the pipe
		if err := s.ask(ctx); fault.KindOf(err) != fault.Cancelled || !strings.HasSuffix(out.String(), question+"\n") {
			t.Errorf("at %q: %v\n%s", question, err, &out)
		}
		if _, err := os.Stat(file); err == nil {
			t.Errorf("at %q, the file was written", question)
		}
		_ = typed.Close()
	}
}

// Ctrl-D is no answer: not even to a question that Enter answers with yes.
func TestSetupWritesNothingAfterTheEndOfTheInput(t *testing.T) {
	for typed, question := range map[string]string{
		"":                "Provider (Enter: skip): ",
		"2\n":             "Model [gpt-5.4]: ",
		"2\n\n":           "API key (not shown): ",
		"7\n":             "Write this? (y/n) [y]: ",
		"7\ny":            "Write this? (y/n) [y]: ",
		"\n\n":            "Rule (Enter: skip): ",
		"\n\n2\n":         "Conversation in which the agent answers [Every weekday]: ",
		"\n\n2\n\n":       "Time [09:00]: ",
		"\n\n2\n\n25:0\n": "Try this step again? (y/n) [y]: ",
	} {
		env := map[string]string{"HOME": t.TempDir()}
		file := configOf(env)
		var out strings.Builder
		c := &cli{in: strings.NewReader(typed), printer: printer{out: &out, err: io.Discard}, locator: locator{getenv: func(name string) string { return env[name] }}}
		s := &setupRun{cli: c, store: setup.Store{Path: file, DataDir: filepath.Dir(file)}, setupFlags: setupFlags{noTest: true}}
		if err := s.ask(t.Context()); fault.KindOf(err) != fault.Cancelled || !strings.HasSuffix(strings.TrimSuffix(out.String(), "Nothing was written.\n"), question+"\n") {
			t.Errorf("after %q: %v\n%s", typed, err, &out)
		}
		if _, err := os.Stat(file); err == nil {
			t.Errorf("after %q, the file was written", typed)
		}
	}
}

// untilWritten calls reached when the last text written to it ends with a text.
type untilWritten struct {
	*strings.Builder
	text    string
	reached func()
}

func (u untilWritten) Write(p []byte) (int, error) {
	n, err := u.Builder.Write(p)
	if strings.HasSuffix(u.String(), u.text) {
		u.reached()
	}
	return n, err
}
