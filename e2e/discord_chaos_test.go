package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"lilac/internal/testkit/discordtest"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/llmtest"
)

// spoken is a message of a user.
type spoken struct {
	n                 int
	wish, channel, id string
	// wakes means that the message is addressed to the agent. maybe means that a change of the
	// message may have come too late.
	wakes, maybe, edited, deleted bool
	// waitFor is the number of the wait whose question it answers, or 0.
	waitFor int
	// away means that the bot receives the message only when it reads the history. never means
	// that the message was deleted before that.
	away, never bool
}

// A crowd is a group of users who talk to the bot and to each other in several channels, while the
// program, the gateway, and the API fail.
type crowd struct {
	t     *testing.T
	s     *e2e.Server
	d     *e2e.Discord
	rnd   *rand.Rand
	side  string // the channel in which the agent asks
	where []string
	who   []discordtest.User
	dms   map[string]discordtest.User

	up bool
	// forgotten means that the program is down and its gateway session has expired.
	forgotten bool
	kills     int // number of kills left
	said      []*spoken
	pressed   []string
	replied   map[string]bool
	trace     []string
	odd
}

func (c *crowd) note(format string, args ...any) {
	c.trace = append(c.trace, time.Now().Format("04:05.000 ")+fmt.Sprintf(format, args...))
}

var (
	// question matches the start of an agent's message that asks for a reply.
	question = regexp.MustCompile(`^question-(\d+)-`)
	// wanted matches the start of a message that the agent was asked to send.
	wanted = regexp.MustCompile(`^(?:sent|question)-(\d+)-`)
)

func (c *crowd) say(channel string, by discordtest.User, mention bool, replyTo string) {
	w := &spoken{n: len(c.said) + 1, wish: crowdWishes[c.rnd.IntN(len(crowdWishes))], channel: channel, away: c.forgotten}
	text := fmt.Sprintf("q%d %s.", w.n, w.wish)
	if mention && c.rnd.IntN(12) == 0 {
		text = "!int " + text
	}
	if mention {
		text = c.d.Self().Mention() + " " + text
	}
	o := discordtest.SayOptions{ReplyTo: replyTo}
	if c.rnd.IntN(8) == 0 {
		o.Files = []discordtest.File{{Name: "notes.txt", ContentType: "text/plain", Data: []byte("some notes")}}
	}
	_, direct := c.dms[channel]
	to, is := c.d.Message(channel, replyTo)
	ours := is && to.Author.ID == c.d.Self().ID
	if found := question.FindStringSubmatch(to.Content); ours && found != nil {
		w.waitFor, _ = strconv.Atoi(found[1]) // the pattern ensures digits
	}
	w.wakes = w.waitFor == 0 && (direct || mention || ours || channel == c.d.Lounge)
	w.id = c.d.Say(channel, by, text, o)
	c.said = append(c.said, w)
	c.note("%s: %s says %s %q in reply to %q", channel, by.Name, w.id, text, replyTo)
}

// one picks a message, usually one of the newest.
func (c *crowd) one(messages []discordtest.Message) (m discordtest.Message, ok bool) {
	if len(messages) == 0 {
		return m, false
	}
	from := 0
	if c.rnd.IntN(3) > 0 {
		from = max(0, len(messages)-4)
	}
	return messages[from+c.rnd.IntN(len(messages)-from)], true
}

// open lists the agent's questions without a reply.
func (c *crowd) open() []discordtest.Message {
	return slices.DeleteFunc(c.d.Ours(c.side), func(m discordtest.Message) bool {
		return !question.MatchString(m.Content) || c.replied[m.ID]
	})
}

// do performs one random action.
func (c *crowd) do() {
	channel := c.where[c.rnd.IntN(len(c.where))]
	by, direct := c.dms[channel]
	if !direct {
		by = c.who[c.rnd.IntN(len(c.who))]
	}
	switch what := c.rnd.IntN(125); {
	case what < 22:
		c.say(channel, by, c.rnd.IntN(3) > 0, "")
	case what < 40:
		if m, ok := c.one(c.d.Ours(channel)); ok {
			c.say(channel, by, c.rnd.IntN(2) == 0, m.ID)
		}
	case what < 46:
		if m, ok := c.one(c.d.Messages(channel)); ok {
			c.say(channel, by, c.rnd.IntN(3) == 0, m.ID)
		}
	case what < 54:
		if m, ok := c.one(c.open()); ok {
			c.replied[m.ID] = true
			c.say(c.side, c.who[c.rnd.IntN(len(c.who))], c.rnd.IntN(3) == 0, m.ID)
		}
	case what < 61:
		c.change(what < 58)
	case what < 64:
		if m, ok := c.one(c.d.Messages(channel)); ok {
			c.d.React(channel, m.ID, by, "👍")
		}
	case what < 68:
		if i := slices.IndexFunc(c.d.Ours(channel), func(m discordtest.Message) bool { return len(m.Buttons) > 0 }); i >= 0 {
			m := c.d.Ours(channel)[i]
			if len(m.Buttons) > 0 { // the request may have ended
				c.pressed = append(c.pressed, c.d.Press(channel, m.ID, by.ID, m.Buttons[0].ID))
				c.note("%s presses %s of %s", by.Name, m.Buttons[0].ID, m.ID)
			}
		}
	case what < 72:
		name := []string{"status", "help", "stop"}[c.rnd.IntN(3)]
		c.pressed = append(c.pressed, c.d.Slash(channel, by.ID, name, nil))
		c.note("%s: /%s", channel, name)
	case what < 73:
		c.d.RenameChannel(c.d.General, fmt.Sprint("general-", len(c.said)))
		c.d.Rename(c.d.Guild, c.d.Bob.ID, fmt.Sprint("bob ", len(c.said)))
	case what < 79:
		c.end(what < 78)
	case what < 82:
		c.start()
	case what < 88:
		c.failGateway()
	case what < 94:
		c.failAPI()
	case what < 119:
		c.more(channel, by)
	default:
		time.Sleep(time.Duration(c.rnd.IntN(900)) * time.Millisecond) // simulate slow users
	}
	time.Sleep(time.Duration(c.rnd.IntN(100)) * time.Millisecond)
}

// change edits or deletes a recent message.
func (c *crowd) change(edit bool) {
	w := c.said[len(c.said)-1-c.rnd.IntN(min(4, len(c.said)))]
	if w.deleted || w.waitFor > 0 {
		return
	}
	w.maybe = true
	if edit {
		w.edited = true
		c.d.Edit(w.channel, w.id, fmt.Sprintf("q%d %s. And more.", w.n, w.wish))
	} else {
		w.deleted, w.never = true, w.away && c.forgotten
		c.d.Delete(w.channel, w.id)
	}
	c.note("q%d is changed, edited %t, deleted %t", w.n, w.edited, w.deleted)
}

// end ends the program, by a kill or by a graceful stop.
func (c *crowd) end(kill bool) {
	switch {
	case !c.up || kill && c.kills == 0:
		return
	case !kill:
		c.s.Terminate(startStop)
		c.d.Forgotten()
	default:
		c.kills--
		c.d.Kill(c.s)
		if c.forgotten = c.rnd.IntN(2) == 0; c.forgotten {
			c.d.ExpireSessions()
		}
	}
	c.up = false
	c.note("the program ends, killed %t, its session is forgotten %t", kill, c.forgotten)
}

func (c *crowd) start() {
	if c.up {
		return
	}
	c.d.Silence(false) // the program is ready only once it is connected
	c.d.HoldAcks(false)
	c.forgotten = false
	c.s.Restart()
	c.up = true
	c.note("the program starts")
}

func (c *crowd) failGateway() {
	ways := []discordtest.Drop{
		discordtest.Cut, discordtest.Reconnect, discordtest.InvalidResumable, discordtest.Invalid, discordtest.CloseWith(4000), discordtest.CloseWith(4009),
	}
	i, way := c.rnd.IntN(10), ways[c.rnd.IntN(len(ways))]
	switch {
	case i < 6:
		c.d.DropGateway(way)
	case i < 7:
		c.d.RefuseGateway(1)
		c.d.DropGateway(discordtest.Cut)
	case i < 8:
		c.d.DropNext(way)
		c.d.DropGateway(discordtest.Cut)
	default:
		c.d.Silence(i == 8)
	}
	c.note("the gateway fails (%d, %+v)", i, way)
}

func (c *crowd) failAPI() {
	routes := []string{"POST /channels/{channel}/messages", "POST /channels/{channel}/messages", "PATCH ", "PUT ", "GET ", ""}
	faults := []discordtest.Fault{
		discordtest.ServerError, discordtest.BadGateway, discordtest.CutBefore, discordtest.CutAfter, discordtest.CutAfter,
		{RetryAfter: 500 * time.Millisecond},
		{RetryAfter: time.Second, Global: true},
		{RetryAfter: time.Second, Shared: true},
		{Delay: 2 * time.Second},
		{Delay: time.Second, CutAfter: true},
	}
	route, fault, n := routes[c.rnd.IntN(len(routes))], faults[c.rnd.IntN(len(faults))], 1+c.rnd.IntN(2)
	c.d.Fail(route, fault, n)
	c.note("%q fails %d times: %+v", route, n, fault)
}

// rest ends all faults and waits until nothing is left to do.
func (c *crowd) rest() {
	c.t.Helper()
	c.d.Silence(false)
	c.d.ClearFaults()
	c.settle()
	c.start()
	c.note("rest")
	calm, rounds := 0, 0
	e2e.Eventually(c.t, 3*answerWithin, "nothing is left to do", func() bool {
		if rounds++; rounds%100 == 0 {
			c.answer("go on", c.who[rounds/100%len(c.who)])
		}
		calm++
		if c.d.Connected() == 0 || !c.s.Ready() || leftOver(c.s) > 0 || c.s.Count(`SELECT (SELECT count(*) FROM tasks WHERE running = 1) +
			(SELECT count(*) FROM router_state WHERE burst = 1) + (SELECT count(*) FROM discord_gaps)`) > 0 || c.waits() {
			calm = 0
		}
		return calm > 50
	})
}

// waits reports whether a workflow is waiting for anything other than a reply.
func (c *crowd) waits() bool {
	var list struct {
		Workflows []struct{ Summary, State string }
	}
	c.s.Request("GET", "/workflows?limit=200", nil, &list)
	return slices.ContainsFunc(list.Workflows, func(w struct{ Summary, State string }) bool {
		return w.State == "waiting" && strings.HasPrefix(w.Summary, "soon-")
	})
}

// Whatever users do on Discord while the program is killed and its connections fail: messages to
// the agent are answered exactly once and completely, other messages are not answered, and each
// wait wakes the agent once.
func TestWhateverPeopleDoOnDiscord(t *testing.T) {
	effort.SkipDetail(t)
	needsCommands(t)
	seeds, steps := uint64(1), 40
	if os.Getenv("LILAC_LONG") != "" {
		seeds, steps = 20, 150
	}
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		for seed := range seeds {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				var side string
				model := llmtest.New(t, crowdModel(func() string { return side }))
				d := e2e.NewDiscord(t, discordtest.Options{
					Heartbeat:       2 * time.Second,
					GlobalPerSecond: 100,                                                                                                // for several processes that run one after the other
					Limits:          map[string]discordtest.Limit{"POST /channels/{channel}/messages": {Requests: 5, Per: time.Second}}, // allows long answers in a short time
				})
				side = d.Channel(d.Guild, "side")
				second := d.Server.Guild("Second", d.Moderator, d.Ada, d.Bob)
				d.Set("allowedGuildIds", fmt.Sprintf("[%q, %q]", d.Guild, second))
				d.Configure("limits: {request: {steps: 4}}\n")
				s := e2e.Start(t, slices.Concat(bus(t), modelEnv(model.URL), d.Env())...)
				e2e.Eventually(t, answerWithin, "the bot is connected", func() bool { return d.Connected() > 0 })
				if err := os.WriteFile(filepath.Join(s.Workspace(d.General), "small.txt"), []byte("small"), 0o600); err != nil {
					t.Fatal(err)
				}
				c := &crowd{
					t: t, s: s, d: d, rnd: rand.New(rand.NewPCG(seed, 1)), side: side, up: true, kills: many(2, 4), replied: map[string]bool{},
					who: []discordtest.User{d.Ada, d.Bob, d.Moderator},
					dms: map[string]discordtest.User{d.DM(d.Ada): d.Ada, d.DM(d.Bob): d.Bob},
				}
				c.odd = odd{
					asked: map[string]int{}, removed: map[string]bool{}, dimmed: map[string]bool{}, unheard: map[string]bool{},
					strange: d.Channel(d.Server.Guild("Elsewhere", d.Ada), "strange"), thread: d.Thread(d.General, "thread"),
				}
				c.where = []string{d.General, d.General, d.Lounge, c.thread, d.DM(d.Ada), d.DM(d.Bob), side, d.Channel(second, "second"), d.Voice(d.Guild, "voice")}
				defer func() {
					if t.Failed() {
						t.Log(strings.Join(c.trace, "\n"))
					}
				}()
				for _, u := range []discordtest.User{d.Ada, d.Bob} { // Discord does not list private conversations
					c.say(d.DM(u), u, false, "")
				}
				e2e.Eventually(t, answerWithin, "they are known", func() bool { return s.Count("SELECT count(*) FROM requests") == 2 })
				for range steps {
					c.do()
				}
				c.rest()
				c.right()
				c.alive()
			})
		}
	})
}
