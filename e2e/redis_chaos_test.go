package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"lilac/internal/foundation/event"
	"lilac/internal/testkit/discordtest"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/llmtest"
	"lilac/internal/testkit/redistest"
)

// An ailment is a temporary failure of Redis.
type ailment struct {
	name       string
	begin, end func(r *redistest.Server)
}

// does returns a function that runs commands in a Redis server.
func does(args ...string) func(r *redistest.Server) {
	return func(r *redistest.Server) { r.Do(args...) }
}

var ailments = []ailment{
	{name: "dead", begin: (*redistest.Server).Kill, end: (*redistest.Server).Restart},
	{name: "standing still", begin: (*redistest.Server).Pause, end: (*redistest.Server).Resume},
	{name: "full", begin: does("CONFIG", "SET", "maxmemory", "1"), end: does("CONFIG", "SET", "maxmemory", "0")},
	{name: "a replica", begin: does("REPLICAOF", "127.0.0.1", "1"), end: does("REPLICAOF", "NO", "ONE")},
	{name: "read-only", begin: does("CONFIG", "SET", "min-replicas-to-write", "1"), end: does("CONFIG", "SET", "min-replicas-to-write", "0")},
	{name: "without a file", begin: does("CONFIG", "SET", "appendonly", "no"), end: writes},
	{name: "forbidden", begin: does("ACL", "SETUSER", "default", "-xadd"), end: does("ACL", "SETUSER", "default", "+xadd")},
	{
		name:  "evicting outputs",
		begin: does("CONFIG", "SET", "maxmemory-policy", "volatile-random", "maxmemory", "1"),
		end:   does("CONFIG", "SET", "maxmemory-policy", "noeviction", "maxmemory", "0"),
	},
}

// writes makes Redis rewrite its append-only file and waits until it is done, because the file
// cannot be copied before.
func writes(r *redistest.Server) {
	r.Do("CONFIG", "SET", "appendonly", "yes")
	e2e.Poll(answerWithin, func() bool {
		info, _ := r.Do("INFO", "persistence").(string)
		return strings.Contains(info, "aof_rewrite_in_progress:0") && strings.Contains(info, "aof_rewrite_scheduled:0")
	})
}

// redisChaos is the program with its whole environment, in which anything can fail.
type redisChaos struct {
	t   *testing.T
	rnd *rand.Rand
	s   *e2e.Server
	d   *e2e.Discord
	r   *redistest.Server
	// reader reads the event stream.
	reader *reader
	began  time.Time
	trace  []string

	up    bool
	kills int
	sick  *ailment
	kept  []redistest.Snapshot
	held  bool // true if [redistest.Server.Remember] was called last

	talks      []string
	ops, pulse string
	// wishes maps a wish to its conversation. retry holds calls that the server has not accepted
	// yet.
	wishes  map[string]string
	retry   []func() bool
	hooks   []string
	replied map[string]bool
	// histories holds the conversations as last read.
	histories map[string][]e2e.Said
}

func newWeather(t *testing.T, seed uint64) *redisChaos {
	w := &redisChaos{
		t: t, rnd: rand.New(rand.NewPCG(seed, 11)), began: time.Now(),
		wishes: map[string]string{}, replied: map[string]bool{}, histories: map[string][]e2e.Said{},
		r: redistest.Start(t, redistest.Options{}), d: e2e.NewDiscord(t, discordtest.Options{}),
	}
	w.d.Configure(`
webhooks:
  hook: {secret: ` + e2e.HookSecret + `}
timers:
  pulse: {every: 4s}
rules:
  hook:
    when: {type: webhook.received}
    do: {agent: {prompt: "The hook {{ .payload.body.n }} came."}}
    session: title:ops
  pulse:
    when: {type: timer.fired}
    do: {agent: {prompt: "The slot {{ .payload.slot }} came."}}
    session: title:pulse
`)
	w.s = e2e.New(t, slices.Concat(modelEnv(llmtest.New(t, grant(w.d.General)).URL), w.d.Env())...)
	w.start()
	w.s.WaitReady()
	e2e.Eventually(t, answerWithin, "the bot is connected", func() bool { return w.d.Connected() > 0 })
	w.ops, w.pulse = named(t, w.s, "ops"), named(t, w.s, "pulse")
	w.talks = []string{w.s.NewSession(), w.s.NewSession()}
	w.reader = follow(t, w.s, "")
	return w
}

func (w *redisChaos) note(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf("%6.2f %s", time.Since(w.began).Seconds(), fmt.Sprintf(format, args...)))
}

func (w *redisChaos) env() []string {
	return append(slices.Clone(w.s.Env), e2e.WithRedis(w.r)...)
}

// start starts the program.
func (w *redisChaos) start() {
	w.t.Helper()
	if !w.runs() {
		w.t.Fatal("it does not start")
	}
	w.up = true
	w.note("start")
}

// runs starts the program and reports whether it keeps running.
func (w *redisChaos) runs() bool {
	w.t.Helper()
	w.s.Spawn(w.env()...)
	over := false
	if !e2e.Poll(answerWithin, func() bool {
		over = w.s.WaitExit(0)
		return over || w.s.Request("GET", "/healthz", nil, nil) == http.StatusOK
	}) {
		w.t.Fatal("it neither starts nor ends")
	}
	if over {
		log := strings.Split(strings.TrimSpace(w.s.Log()), "\n")
		w.note("it does not start: %s", log[len(log)-1])
	}
	return !over
}

// stop stops the program gracefully.
func (w *redisChaos) stop() {
	w.note("stop")
	w.up = false
	w.s.Terminate(answerWithin)
	w.d.Forgotten()
}

func (w *redisChaos) kill() {
	if w.kills == 3 {
		return // a request that is resumed more often fails, as intended
	}
	w.kills++
	w.note("kill")
	w.up = false
	w.d.Kill(w.s)
}

func (w *redisChaos) heal() {
	if w.sick != nil {
		w.sick.end(w.r)
		w.note("Redis is not %s any more", w.sick.name)
		w.sick = nil
	}
}

// strike makes Redis fail.
func (w *redisChaos) strike() {
	if w.sick != nil {
		w.heal()
		return
	}
	switch what := w.rnd.IntN(len(ailments) + 6); what {
	default:
		w.sick = &ailments[what-6]
		w.note("Redis is %s", w.sick.name)
		w.sick.begin(w.r)
	case 0:
		w.note("flush")
		w.r.FlushAll()
	case 1, 2:
		if len(w.kept) == 0 || w.rnd.IntN(3) == 0 {
			w.note("snapshot")
			w.kept = append(w.kept, w.r.Snapshot())
			break
		}
		w.note("rollback")
		w.r.Rollback(w.kept[w.rnd.IntN(len(w.kept))])
	case 3:
		w.note("forget: %t", w.held)
		if w.held {
			w.r.Forget()
		} else {
			w.r.Remember()
		}
		w.held = !w.held
	case 4:
		w.note("its connections are cut")
		w.r.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	case 5:
		w.note("its scripts are gone")
		w.r.Do("SCRIPT", "FLUSH")
	}
}

// wish creates a wish and sends it to a random or given place.
func (w *redisChaos) wish(n int, where ...string) (wish, place string) {
	wish, place = fmt.Sprint("m", n, wishKinds[w.rnd.IntN(len(wishKinds))]), where[w.rnd.IntN(len(where))]
	w.wishes[wish] = place
	w.note("%s in %s", wish, place)
	return wish, place
}

func (w *redisChaos) do(n int) {
	w.t.Helper()
	switch what := w.rnd.IntN(40); {
	case what < 8:
		wish, talk := w.wish(n, w.talks...)
		queue := []event.Queue{event.Prompt, event.Steer, event.FollowUp}[w.rnd.IntN(3)]
		w.retry = append(w.retry, func() bool {
			_, code := w.s.TryPrompt(talk, "please "+wish, queue, "key-"+wish)
			return code == http.StatusOK
		})
	case what < 16:
		wish, channel := w.wish(n, w.d.General, w.d.Lounge)
		w.d.MentionUs(channel, []discordtest.User{w.d.Ada, w.d.Bob}[w.rnd.IntN(2)], "please "+wish)
	case what < 19:
		hook := fmt.Sprint("hook-", n)
		w.hooks = append(w.hooks, hook)
		w.note("%s", hook)
		w.retry = append(w.retry, func() bool {
			code, _ := w.s.HookOf("x", "hook", hook, `{"n":"`+hook+`"}`)
			return code == http.StatusAccepted
		})
	case what < 22:
		w.reply()
	case what < 27 && !w.up:
		w.start()
	case what < 25:
		w.kill()
	case what < 27:
		w.stop()
	case what < 33:
		w.strike()
	default:
		time.Sleep(time.Duration(w.rnd.IntN(900)) * time.Millisecond) // simulate slow users
	}
	if w.up && w.s.Exited() {
		w.t.Fatal("the program ended by itself")
	}
	w.again()
}

// again repeats calls that the server has not accepted yet.
func (w *redisChaos) again() {
	if w.up {
		w.retry = slices.DeleteFunc(w.retry, func(send func() bool) bool { return send() })
	}
}

var asked = regexp.MustCompile(`^question (\d+ask)\?$`)

// reply replies to the agent's questions.
func (w *redisChaos) reply() {
	for _, m := range w.d.Ours(w.d.General) {
		if q := asked.FindStringSubmatch(m.Content); q != nil && !w.replied[m.ID] {
			w.replied[m.ID] = true
			w.note("a reply to %s", m.Content)
			w.d.Say(w.d.General, w.d.Ada, fmt.Sprintf("reply r%s to %s", q[1], m.ID), discordtest.SayOptions{ReplyTo: m.ID})
		}
	}
}

// calm ends all failures and waits until the program is idle.
func (w *redisChaos) calm() {
	w.t.Helper()
	w.heal()
	if !w.up {
		w.start()
	}
	w.note("calm")
	if !e2e.Poll(answerWithin, w.s.Ready) {
		w.t.Error("/readyz is not well")
	}
	quiet := 0
	if !e2e.Poll(3*answerWithin, func() bool {
		w.again()
		w.reply()
		if quiet++; len(w.retry) > 0 || w.left() != "" {
			quiet = 0
		}
		return quiet > 20
	}) {
		w.t.Errorf("%d things are not taken; left over: %s", len(w.retry), w.left())
	}
}

// Redis and the program fail in many ways while everything happens at once. Every wish is
// fulfilled once, on Discord and in the history; the end of every task and every reply is reported
// once; every workflow wakes the agent once; every webhook and every time of a timer is one event;
// and readers of the event stream see the end of each request. At the end, Redis has every event.
func TestWhateverBefallsRedis(t *testing.T) {
	effort.SkipDetail(t)
	needsCommands(t)
	t.Parallel()
	for seed := range uint64(many(2, 40)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w := newWeather(t, seed)
			defer func() {
				if t.Failed() {
					t.Log(strings.Join(w.trace, "\n"))
				}
			}()
			for n := range many(30, 60) {
				w.do(n)
			}
			w.calm()
			w.check()
			w.s.Terminate(answerWithin)
			if out, err := w.command("doctor", "--deep"); err != nil {
				t.Errorf("lilac doctor --deep: %v\n%s", err, out)
			}
		})
	}
}
