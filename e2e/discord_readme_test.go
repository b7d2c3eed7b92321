package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lilac/internal/foundation/event"
	"lilac/internal/testkit/discordtest"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/llmtest"
)

// A new user follows the Discord section of the README, starting with nothing configured. doctor
// reports each missing step, and then everything that the section promises works.
func TestANewUserFollowsTheReadmeOnDiscord(t *testing.T) {
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		u := newReadmeUser(t, bus)
		u.setUp()
		u.s.Restart()
		e2e.Eventually(t, answerWithin, "the bot is connected", func() bool { return u.d.Connected() > 0 })
		u.doctorIsContent()
		first := u.mentions()
		u.repliesToIt(first)
		u.writesPrivately()
		u.talksInAnActiveChannel()
		u.addsAndSteers()
		u.stops()
		u.sendsFiles()
		u.killsItInTheMiddle()

		e2e.Eventually(t, answerWithin, "nothing is left", func() bool { return leftOver(u.s) == 0 })
		states := map[event.RequestState]int{}
		var list struct {
			Requests []struct{ State event.RequestState }
		}
		u.s.Request("GET", "/requests?limit=100", nil, &list)
		for _, r := range list.Requests {
			states[r.State]++
		}
		if want := map[event.RequestState]int{event.StateDone: 7, event.StateCancelled: 1}; fmt.Sprint(states) != fmt.Sprint(want) {
			t.Errorf("the requests ended as %v, want %v", states, want)
		}
		u.doctorIsContent()
	})
}

// A readmeUser follows the section.
type readmeUser struct {
	t     *testing.T
	s     *e2e.Server
	d     *e2e.Discord
	model *chatModel
	// link and config are the link and the configuration in the section.
	link, config string
}

func newReadmeUser(t *testing.T, bus e2e.Engine) *readmeUser {
	u := &readmeUser{t: t, d: e2e.NewDiscord(t, discordtest.Options{WithoutMessageContent: true}), model: newChatModel(t)}
	files := inTurn("Here it is.", fixed("write", map[string]string{"path": "report.csv", "content": "a,b\n1,2\n"}),
		fixed("attachment_download", map[string]any{}), sendBack)
	model := llmtest.New(t, func(r llmtest.Request) llmtest.Script {
		if strings.Contains(lastOfPerson(r), "make a table") {
			return files(r)
		}
		return u.model.answer(r)
	})
	u.model.server = model
	u.s = e2e.New(t, slices.Concat(bus(t), modelEnv(model.URL))...)

	readme, err := os.ReadFile(filepath.Join("..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(readme), "## On Discord\n")
	section, _, _ = strings.Cut(section, "\n## ")
	_, link, _ := strings.Cut(section, "`https://discord.com/oauth2/authorize")
	link, _, _ = strings.Cut(link, "`")
	_, config, _ := strings.Cut(section, "```yaml\n")
	config, _, _ = strings.Cut(config, "```")
	u.link, u.config = "https://discord.com/oauth2/authorize"+link, strings.TrimSpace(config)
	if !strings.Contains(u.link, "APPLICATION_ID") || !strings.Contains(u.config, "123456789012345678") {
		t.Fatalf("the README is not understood: %q, %q", u.link, u.config)
	}
	return u
}

// configure writes the section's configuration with the server's ID. It adds the address of the
// fake Discord, which real users don't need.
func (u *readmeUser) configure(serverID string, more ...string) {
	u.t.Helper()
	text := strings.ReplaceAll(u.config, "123456789012345678", serverID)
	more = append(more, "apiURL: "+u.d.APIURL, "gatewayURL: "+u.d.GatewayURL,
		fmt.Sprintf("attachments: {hosts: [%q]}", strings.TrimPrefix(u.d.URL, "http://")))
	text = strings.Replace(text, "discord: {", "discord: {"+strings.Join(more, ", ")+", ", 1) + "\n"
	dir := filepath.Join(u.s.Dir, ".lilac")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		u.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(text), 0o600); err != nil {
		u.t.Fatal(err)
	}
}

// token sets DISCORD_TOKEN for later starts.
func (u *readmeUser) token(token string) { u.s.Env = append(u.s.Env, "DISCORD_TOKEN="+token) }

// doctor runs lilac doctor and returns its findings about Discord.
func (u *readmeUser) doctor() (said string) {
	u.t.Helper()
	cmd := exec.Command(e2e.Binary(u.t), "doctor")
	cmd.Env = slices.Concat([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + u.s.Dir, "LILAC_TOKEN=" + e2e.Token, "LILAC_DATA_DIR=" + filepath.Join(u.s.Dir, "data"),
	}, u.s.Env)
	out, _ := cmd.CombinedOutput() // it fails if anything else is missing on this machine
	about := ""
	for line := range strings.Lines(string(out)) {
		if !strings.HasPrefix(line, " ") {
			about, _, _ = strings.Cut(strings.TrimSpace(line[min(len(line), 8):]), " ")
		}
		if about == "discord" {
			said += line
		}
	}
	return said
}

func (u *readmeUser) doctorSays(wants ...string) {
	u.t.Helper()
	said := u.doctor()
	for _, want := range wants {
		if !strings.Contains(said, want) {
			u.t.Errorf("doctor does not say %q:\n%s", want, said)
		}
	}
}

func (u *readmeUser) doctorIsContent() {
	u.t.Helper()
	if said := u.doctor(); said == "" || strings.Contains(said, "failed") || strings.Contains(said, "warning") {
		u.t.Errorf("doctor says\n%s", said)
	}
}

// setUp makes each likely mistake of the setup and checks the advice of doctor.
func (u *readmeUser) setUp() {
	d := u.d
	d.Leave(d.Guild, d.Self())
	u.configure(d.Guild, "allowDMs: true", fmt.Sprintf("channels: {%q: {mode: active}}", d.Lounge))
	u.doctorSays("DISCORD_TOKEN is not set", "Reset Token")
	u.token("of-another-bot")
	u.doctorSays("failed", "rejected the bot's token", "Reset")
	u.token(discordtest.DefaultToken)
	u.doctorSays("failed", "turn on “Message Content Intent”", "/applications/"+d.Self().ID+"/bot")
	d.AllowMessageContent()
	u.doctorSays("failed", "the bot is not in the server "+d.Guild, strings.Replace(u.link, "APPLICATION_ID", d.Self().ID, 1))
	d.Join(d.Guild, d.Self(), "")
	d.Deny(d.Lounge, d.Guild, discordtest.SendMessages|discordtest.AttachFiles)
	u.doctorSays("failed", "right-click #lounge, Edit Channel, Permissions", "“Send Messages”, “Attach Files”")
	d.Permit(d.Lounge, d.Guild, discordtest.SendMessages|discordtest.AttachFiles)
	u.doctorIsContent()
}

// answered waits for the complete answer to a message.
func (u *readmeUser) answered(channel, asked string) discordtest.Message {
	u.t.Helper()
	return u.d.Shown(channel, "the answer is whole", answerTo(asked))
}

// begun waits until an answer to a message is shown with its tool and the button.
func (u *readmeUser) begun(channel, asked string) discordtest.Message {
	u.t.Helper()
	return u.d.Shown(channel, "the answer begins, with its tool and a way to stop it", func(m discordtest.Message) bool {
		return m.ReplyTo == asked && strings.Contains(m.Content, "glob") && len(m.Buttons) == 1
	})
}

func (u *readmeUser) mentions() (answer discordtest.Message) {
	u.model.waits()
	asked := u.d.MentionUs(u.d.General, u.d.Ada, "what is there?")
	running := u.begun(u.d.General, asked)
	u.model.letGo()
	answer = u.answered(u.d.General, asked)
	if answer.ID != running.ID || answer.Edits == 0 || len(u.d.Ours(u.d.General)) != 1 {
		u.t.Errorf("it is not one message that filled up: %+v", u.d.Ours(u.d.General))
	}
	return answer
}

func (u *readmeUser) repliesToIt(answer discordtest.Message) {
	u.model.letGo()
	u.answered(u.d.General, u.d.Say(u.d.General, u.d.Bob, "and behind it?", discordtest.SayOptions{ReplyTo: answer.ID}))
	if !u.model.wasTold("and behind it?") {
		u.t.Errorf("the model was told %q", u.model.heard())
	}
}

func (u *readmeUser) writesPrivately() {
	private := u.d.DM(u.d.Ada)
	u.d.Say(private, u.d.Ada, "between us", discordtest.SayOptions{})
	u.d.Shown(private, "a private message is answered", e2e.Finished(wholeText))
}

func (u *readmeUser) talksInAnActiveChannel() {
	for _, text := range []string{"it rains", "again", "who has an umbrella?"} {
		u.d.Say(u.d.Lounge, u.d.Bob, text, discordtest.SayOptions{})
	}
	u.d.Shown(u.d.Lounge, "a burst is answered", e2e.Finished(wholeText))
	if !u.model.wasTold("it rains") || !u.model.wasTold("who has an umbrella?") || len(u.d.Ours(u.d.Lounge)) != 1 {
		u.t.Errorf("the model was told %q, and answered %d times", u.model.heard(), len(u.d.Ours(u.d.Lounge)))
	}
}

func (u *readmeUser) addsAndSteers() {
	u.model.waits()
	asked := u.d.MentionUs(u.d.General, u.d.Ada, "tell me of the house")
	running, id := u.begun(u.d.General, asked), e2e.RequestID(u.d.General, asked)
	added := u.d.Say(u.d.General, u.d.Ada, "and of the cellar", discordtest.SayOptions{ReplyTo: running.ID})
	waitTaken(u.t, u.s, id, added)
	steer := u.d.Say(u.d.General, u.d.Ada, u.d.Self().Mention()+" but first the attic", discordtest.SayOptions{ReplyTo: running.ID})
	waitTaken(u.t, u.s, id, steer)
	u.model.letGo()
	if story := u.s.WaitEnded(id, answerWithin); story.State != string(event.StateDone) {
		u.t.Errorf("ended as %s: %s", story.State, story.Detail)
	}
	moved := u.d.Shown(u.d.General, "the answer goes on under the steer", func(m discordtest.Message) bool { return m.ReplyTo == steer && len(m.Buttons) == 0 })
	old := u.d.Shown(u.d.General, "the old message is frozen", func(m discordtest.Message) bool { return m.ID == running.ID && len(m.Buttons) == 0 })
	text, faults := e2e.OutputText(u.t, u.s.WholeOutput(id, answerWithin))
	if got, want := strings.Fields(old.Content+" "+moved.Content), strings.Fields(text); !slices.Equal(got, want) || len(faults) > 0 {
		u.t.Errorf("the messages show %q, want %q (%q)", got, want, faults)
	}
	if !wasAsked(u.model.server, "and of the cellar") || !wasAsked(u.model.server, "but first the attic") {
		u.t.Errorf("the model was told %q", u.model.heard())
	}
}

func (u *readmeUser) stops() {
	u.model.waits()
	asked := u.d.MentionUs(u.d.General, u.d.Ada, "talk for ever")
	running := u.begun(u.d.General, asked)
	u.d.Answered(u.d.Press(u.d.General, running.ID, u.d.Ada.ID, running.Buttons[0].ID))
	u.d.Shown(u.d.General, "the message says that it was stopped", func(m discordtest.Message) bool {
		return m.ID == running.ID && len(m.Buttons) == 0 && strings.HasSuffix(m.Content, "Stopped by @ada.")
	})
}

func (u *readmeUser) sendsFiles() {
	asked := u.d.Say(u.d.General, u.d.Ada, u.d.Self().Mention()+" make a table of this", discordtest.SayOptions{Files: []discordtest.File{
		{Name: "scan.png", ContentType: "image/png", Data: onePixel}, {Name: "letter.pdf", ContentType: "application/pdf", Data: []byte(onePage)},
	}})
	u.d.Shown(u.d.General, "the answer is whole", func(m discordtest.Message) bool {
		return m.ReplyTo == asked && strings.Contains(m.Content, "Here it is.") && len(m.Buttons) == 0
	})
	e2e.Eventually(u.t, answerWithin, "the files are there", func() bool { names, _ := filesIn(u.d, u.d.General); return len(names) == 3 })
	if _, got := filesIn(u.d, u.d.General); got["report.csv"] != "a,b\n1,2\n" || got["yours.png"] != string(onePixel) {
		u.t.Errorf("the files are %q", got)
	}
}

func (u *readmeUser) killsItInTheMiddle() {
	u.model.waits()
	asked := u.d.MentionUs(u.d.General, u.d.Ada, "once more")
	running := u.begun(u.d.General, asked)
	u.d.Kill(u.s)
	u.model.letGo()
	u.s.Restart()
	if done := u.answered(u.d.General, asked); done.ID != running.ID {
		u.t.Error("it went on in another message")
	}
}
