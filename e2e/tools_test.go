package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"lilac/internal/foundation/event"
	"lilac/internal/testkit/discordtest"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/llmtest"
)

// commandModel runs one command when a user says "go", and sends its output to told. It answers
// other messages at once.
func commandModel(t *testing.T, command func() string) (model *llmtest.Server, told chan string) {
	t.Helper()
	told = make(chan string, 1)
	return llmtest.New(t, func(r llmtest.Request) llmtest.Script {
		last := r.Messages[len(r.Messages)-1]
		for _, text := range last.Results {
			select {
			case told <- text:
			default: // asked again; the first answer is the one to look at
			}
		}
		if len(last.Results) == 0 && strings.HasSuffix(last.Text, "go") {
			return llmtest.Script{Calls: []llmtest.Call{{ID: "call-1", Name: "bash", Input: `{"command":` + strconv.Quote(command()) + `}`}}}
		}
		return llmtest.Say("Done.")
	}), told
}

// has reports expected parts that a command's output lacks.
func has(t *testing.T, output string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(output, want) {
			t.Errorf("the output lacks %q:\n%s", want, output)
		}
	}
}

// A command of the agent reads and writes on Discord where it has access, and is denied elsewhere.
func TestACommandUsesDiscord(t *testing.T) {
	needsCommands(t)
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		d := e2e.NewDiscord(t, discordtest.Options{})
		ops := d.Channel(d.Guild, "operations")
		elsewhere := d.Channel(d.Server.Guild("Elsewhere", d.Bob), "closed")
		private := d.DM(d.Bob)
		d.Configure(fmt.Sprintf("entity: {sessions: {discord: {ops: %q}}}\n", ops))
		question := make(chan string, 1)
		model, told := commandModel(t, func() string {
			asked := <-question
			question <- asked
			return fmt.Sprintf(`
tools surface.sessions.list --output=json | grep -E 'token|%[6]s'
text='hello @ada, see <@%[1]s> and @everyone'
tools surface.messages.send --session-id='#ops' --text="$text" --output=json; echo "sent $?"
tools surface.messages.send --session-id='<#%[2]s>' --text="$text" --output=json | grep repeated
id=$(tools surface.messages.send --session-id=ops --text=draft | sed -n 's/^messageId: //p')
tools surface.messages.edit --session-id=OPS --message-id=$id --text='final, #general'; echo "edited $?"
tools surface.messages.read --session-id=ops --message-id=$id; echo "read $?"
tools surface.reactions.add --message-id=%[3]s --emoji=👍; echo "reacted $?"
tools surface.messages.send --session-id=%[4]s --text=x; echo "closed $?"
tools surface.messages.send --session-id='#opps' --text=x; echo "unknown $?"
tools surface.messages.edit --message-id=%[3]s --text=x; echo "foreign $?"
tools surface.messages.delete --message-id=%[3]s; echo "theirs $?"
tools surface.messages.list --session-id=%[5]s; echo "private $?"
tools surface.messages.send --session-id=%[5]s --text=x; echo "to private $?"
tools surface.messages.list --limit=many; echo "usage $?"
tools events.publish --type=custom.build --payload:json='{"ok":true}'; echo "published $?"
tools events.publish --type=build; echo "not published $?"
`, d.Bob.ID, ops, asked, elsewhere, private, d.General)
		})
		s := e2e.New(t, slices.Concat(bus(t), modelEnv(model.URL), d.Env())...)
		s.Restart()
		e2e.Eventually(t, answerWithin, "the bot is connected", func() bool { return d.Connected() > 0 })
		d.Say(private, d.Bob, "between us", discordtest.SayOptions{})
		d.Shown(private, "the answer to Bob", e2e.Finished("Done."))
		asked := d.MentionUs(d.General, d.Ada, "go")
		question <- asked
		output := <-told
		has(t, output, `"token": "ops"`, d.General, "sent 0", `"repeated": true`, "edited 0", "text: final, #general", "read 0", "reacted 0",
			"closed 3", "allowedChannelIds", "unknown 4", "Did you mean #ops?", "foreign 3", "theirs 3", "private 3", "to private 3",
			"usage 2", `"limit" must be a whole number between 1 and 200, not "many"`, "published 0", "not published 3")
		if strings.Contains(output, "between us") {
			t.Errorf("what is private was read:\n%s", output)
		}
		ours := d.Ours(ops)
		if len(ours) != 2 || ours[0].Content != "hello "+d.Ada.Mention()+", see "+d.Bob.Mention()+" and @everyone" || !slices.Equal(ours[0].Pings, []string{d.Ada.ID}) ||
			ours[1].Content != "final, <#"+d.General+">" {
			t.Errorf("in #ops there is %+v", ours)
		}
		if m, _ := d.Message(d.General, asked); len(m.Reactions) != 1 || m.Content == "x" {
			t.Errorf("%+v", m)
		}
		if n := len(d.Everything(elsewhere)); n != 0 {
			t.Errorf("%d messages are where none may be", n)
		}
		s.WaitEnded(e2e.RequestID(d.General, asked), answerWithin)
		if v := d.Violations(); len(v) > 0 {
			t.Errorf("%q", v)
		}
	})
}

// The program is killed while it sends a command's message, and the model sends the message again
// because the outcome is unknown. The message appears once.
func TestACommandsMessageIsSentOnceThroughAKill(t *testing.T) {
	needsCommands(t)
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		d := e2e.NewDiscord(t, discordtest.Options{})
		ops := d.Channel(d.Guild, "operations")
		told := make(chan string, 10)
		model := llmtest.New(t, func(r llmtest.Request) llmtest.Script {
			last := r.Messages[len(r.Messages)-1]
			repeated := false
			for _, text := range last.Results {
				told <- text
				repeated = strings.Contains(text, "repeated")
			}
			if repeated {
				return llmtest.Say("Done.")
			}
			return llmtest.Script{Calls: []llmtest.Call{{
				ID: fmt.Sprintf("call-%d", r.N), Name: "bash", Input: `{"command":"tools surface.messages.send --session-id=` + ops + ` --text=once"}`,
			}}}
		})
		s := e2e.New(t, slices.Concat(bus(t), modelEnv(model.URL), d.Env())...)
		s.Restart()
		e2e.Eventually(t, answerWithin, "the bot is connected", func() bool { return d.Connected() > 0 })
		reached, killed := make(chan struct{}), make(chan struct{})
		var once sync.Once
		d.OnCarriedOut(func(c discordtest.Carried) {
			if c.Message.ChannelID == ops {
				once.Do(func() {
					close(reached)
					<-killed
				})
			}
		})
		asked := d.MentionUs(d.General, d.Ada, "go")
		select {
		case <-reached:
		case <-time.After(answerWithin):
			t.Error("nothing was sent")
		}
		d.Kill(s)
		close(killed)
		s.Restart()
		s.WaitEnded(e2e.RequestID(d.General, asked), answerWithin)
		has(t, <-told, "unknown")
		has(t, <-told, "repeated: true")
		if ours := d.Ours(ops); len(ours) != 1 {
			t.Errorf("%d messages: %+v", len(ours), ours)
		}
	})
}

// Commands without a sandbox find "tools" in their PATH.
func TestACommandThatIsNotConfinedFindsTools(t *testing.T) {
	t.Parallel()
	model, told := commandModel(t, func() string { return "tools --list; type -p tools; ls -l \"$(type -p tools)\"" })
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte("sandbox: {mode: off}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := e2e.New(t, append(modelEnv(model.URL), "LILAC_CONFIG="+file)...)
	s.Restart()
	a := s.Prompt(s.NewSession(), "go", event.Prompt)
	s.WaitEnded(a.RequestID, answerWithin)
	has(t, <-told, "surface.messages.list", "/bin/tools")
}

// An operator calls tools from a terminal with their own token, over the socket and over TCP,
// until the token is revoked.
func TestAnOperatorCallsToolsFromATerminal(t *testing.T) {
	t.Parallel()
	model, _ := commandModel(t, func() string { return "true" })
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte("tools: {addr: 127.0.0.1:0}\npolicy: [{tool: surface.messages.list, do: ask}, {tool: surface.reactions.list, do: deny}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := e2e.New(t, append(modelEnv(model.URL), "LILAC_CONFIG="+file)...)
	s.Restart()
	session := s.NewSession()
	s.WaitEnded(s.Prompt(session, "hello there", event.Prompt).RequestID, answerWithin)
	env := []string{"LILAC_DATA_DIR=" + filepath.Join(s.Dir, "data"), "HOME=" + s.Dir, "LILAC_TOKEN=" + e2e.Token, "PATH=" + os.Getenv("PATH")}
	lilac := func(args ...string) (string, int) {
		cmd := exec.Command(e2e.Binary(t), args...)
		cmd.Env = env
		out, err := cmd.Output()
		if exit, ok := err.(*exec.ExitError); ok {
			return string(out) + string(exit.Stderr), exit.ExitCode()
		}
		return string(out), 0
	}
	expect := func(code int, want string, args ...string) string {
		t.Helper()
		out, got := lilac(args...)
		if got != code || !strings.Contains(out, want) {
			t.Errorf("lilac %q: %d %s, want %d with %q", args, got, out, code, want)
		}
		return out
	}
	expect(3, "lilac tools token create", "tools", "--list")
	token := strings.TrimSpace(expect(0, "lilac_", "tools", "token", "create", "laptop", "--allow", "surface.*"))
	expect(5, "already", "tools", "token", "create", "laptop", "--allow", "*")
	env = append(env, "LILAC_TOOL_TOKEN="+token)
	expect(0, "surface.messages.send", "tools", "--list")
	expect(0, "--session-id", "tools", "help", "surface.messages.list")
	expect(0, session, "tools", "surface.sessions.list", "--output=json")
	expect(0, "hello there", "tools", "surface.messages.list", "--session-id="+session)
	expect(0, "surface.messages.list\n", "tools", "__complete", "tools surface.messages.l")
	expect(3, "does not allow", "tools", "events.publish", "--type=custom.x")
	expect(3, "policy (rule 2) does not allow", "tools", "surface.reactions.list", "--session-id="+session, "--message-id=m")
	expect(4, "There is no session", "tools", "surface.messages.list", "--session-id=nobody")
	expect(2, "sessionId is missing", "tools", "surface.messages.list")
	expect(3, "cannot send messages", "tools", "surface.messages.send", "--session-id="+session, "--text=x")
	data, err := os.ReadFile(filepath.Join(s.Dir, "data", "server.json"))
	if err != nil {
		t.Fatal(err)
	}
	var announced struct{ ToolAddr string }
	if err := json.Unmarshal(data, &announced); err != nil {
		t.Fatal(err)
	}
	socket := env
	env = append(slices.Clone(env), "LILAC_TOOL_URL=http://"+announced.ToolAddr)
	expect(0, session, "tools", "surface.sessions.list")
	env = socket
	expect(0, "cannot send", "tools", "calls")
	expect(0, "laptop", "tools", "token", "list")
	expect(0, "revoked", "tools", "token", "revoke", "laptop")
	expect(3, "invalid or expired", "tools", "--list")
	s.Kill()
	expect(6, "No tool server answers", "tools", "--list")
}

// The command must start quickly, because an agent calls it often. The target is 15 ms. The limit
// is five times that in the long form, and higher next to other tests, where it only shows that
// the command waits for nothing. The test repeats until one round was undisturbed.
func TestTheCommandToolsStartsSoon(t *testing.T) {
	const starts, rounds = 9, 20
	soon := time.Duration(many(1000, 5*15)) * time.Millisecond
	dir := t.TempDir()
	tools := filepath.Join(dir, "tools")
	if err := os.Symlink(e2e.Binary(t), tools); err != nil {
		t.Fatal(err)
	}
	// Control: the same command with a delay slightly above the limit.
	late := filepath.Join(dir, "late")
	if err := os.WriteFile(late, fmt.Appendf(nil, "#!/bin/sh\nsleep %.2f\nexec %s \"$@\"\n", soon.Seconds()+0.01, tools), 0o700); err != nil {
		t.Fatal(err)
	}
	median := func(program string, starts int) time.Duration {
		var took []time.Duration
		for range starts {
			cmd := exec.Command(program, "--help")
			cmd.Env = []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH")}
			began := time.Now()
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			took = append(took, time.Since(began))
		}
		slices.Sort(took)
		return took[starts/2]
	}
	least := median(tools, starts)
	for n := 1; n < rounds && least > soon; n++ {
		least = min(least, median(tools, starts))
	}
	t.Logf("it starts and ends within %s", least.Round(time.Millisecond))
	if least > soon {
		t.Errorf("it needs %s, more than %s", least, soon)
	}
	if held := median(late, 3); held <= soon {
		t.Errorf("control: one that is held up needs %s", held)
	}
}
