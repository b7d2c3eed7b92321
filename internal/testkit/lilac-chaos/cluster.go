package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"lilac/internal/foundation/event"
	"lilac/internal/testkit/discordtest"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/faultproxy"
	"lilac/internal/testkit/llmtest"
	"lilac/internal/testkit/postgrestest"
	"lilac/internal/testkit/redistest"
)

// cluster is the nodes, and everything that they depend on.
type cluster struct {
	h       *host
	o       options
	nodes   []*e2e.Server
	discord *e2e.Discord

	// primary and standby are the PostgreSQL servers; replication is the link between them,
	// links are those between the nodes and each of the two.
	primary, standby *postgrestest.Server
	replication      *faultproxy.Proxy
	links            []*faultproxy.Proxy
	// between are the links on which the nodes reach each other.
	between []*faultproxy.Proxy
	// files is the directory that the nodes share.
	files string
	redis *redistest.Server
	owner *watcher
	// clocks chooses how wrong the clocks of the nodes are.
	clocks *rand.Rand
}

func startCluster(h *host, o options) *cluster {
	if why := postgrestest.Missing(); why != "" {
		h.Fatal(why)
	}
	c := &cluster{h: h, o: o, files: h.TempDir(), clocks: rand.New(rand.NewPCG(o.seed, 1))}
	if o.skew > 0 {
		makeSkewable(h)
	}
	var settings []string
	if o.control != "async" {
		settings = append(settings, postgrestest.Synchronous)
	}
	if _, err := exec.LookPath(redistest.Program()); err != nil {
		h.Fatalf("%s is needed: apt-get install redis-server", redistest.Program())
	}
	c.redis = redistest.Start(h, redistest.Options{Volatile: true})
	c.primary = postgrestest.Start(h, settings...)
	c.replication = faultproxy.Start(h, c.primary.Addr())
	c.standby = c.primary.StartStandby(h, c.replication.Addr, 0)
	c.links = []*faultproxy.Proxy{faultproxy.Start(h, c.primary.Addr()), faultproxy.Start(h, c.standby.Addr())}
	model := llmtest.New(h, answer)
	c.discord = e2e.NewDiscord(h, discordtest.Options{})
	c.discord.Configure("webhooks:\n  ci: {secret: " + hookSecret + "}\n" + rule + noLimit)
	url := fmt.Sprintf("postgres://postgres@%s,%s/postgres?sslmode=disable&target_session_attrs=read-write", c.links[0].Addr, c.links[1].Addr)
	env := append(e2e.OnPostgres(url), c.discord.Env()...)
	env = append(env, "OPENAI_BASE_URL="+model.URL+"/v1", "OPENAI_API_KEY=test", "LILAC_MODEL=openai/test-model", "LILAC_LEASE="+o.lease.String(), "LILAC_WITHOUT="+o.without, "LILAC_BUS_URL="+c.redis.URL())
	for _, variable := range []string{"LILAC_WORKSPACE", "LILAC_OWN_WORKSPACES", "LILAC_HOMES", "LILAC_BLOBS"} {
		env = append(env, variable+"="+filepath.Join(c.files, variable))
	}
	for range o.nodes {
		s := e2e.New(h, env...)
		link := faultproxy.Start(h, s.Addr)
		s.Env = append(s.Env, "LILAC_NODE_URL=http://"+link.Addr)
		c.nodes, c.between = append(c.nodes, s), append(c.between, link)
		c.spawn(s)
	}
	c.awaitActive()
	c.owner = watchOwner(h.Context(), c.primary)
	h.Cleanup(func() { c.owner.end() })
	return c
}

// asked matches what the world sends.
var asked = regexp.MustCompile(`(prompt-\d+|mention|delivery)-\d+`)

// rule answers a webhook in the channel on Discord.
const rule = `rules:
  ci:
    when: {type: webhook.received}
    do: {agent: {prompt: "Read {{ .payload.body.text }}"}}
    session: "title:#general"
`

// noLimit keeps a long run from reaching the limit of a day, where every request would wait for a
// person.
const noLimit = "limits: {day: {tokens: 0}}\n"

// answer repeats the newest thing that the world has said, slowly enough that faults happen amid
// it. After a restart, other messages follow it, which say so. For a prompt, it first runs a command
// that writes the prompt to a file in the home of the conversation.
func answer(r llmtest.Request) llmtest.Script {
	ran := false
	for _, m := range slices.Backward(r.Messages) {
		ran = ran || len(m.Results) > 0
		if m.Role != "assistant" {
			if heard := asked.FindString(m.Text); heard != "" {
				if strings.HasPrefix(heard, "prompt-") && !ran {
					return llmtest.Script{Calls: []llmtest.Call{{ID: "run-" + heard, Name: "bash", Input: `{"command":"echo ` + heard + ` >> ~/ran; sleep 0.2"}`}}}
				}
				return llmtest.Script{Text: []string{"I ", "heard: ", heard}, Delay: 100 * time.Millisecond}
			}
		}
	}
	return llmtest.Say("I heard nothing.")
}

func (c *cluster) others(active *e2e.Server) []*e2e.Server {
	return slices.DeleteFunc(slices.Clone(c.nodes), func(s *e2e.Server) bool { return s == active })
}

func each(links []*faultproxy.Proxy, do func(*faultproxy.Proxy)) {
	for _, l := range links {
		do(l)
	}
}

// awaitActive waits until a node works, and returns it.
func (c *cluster) awaitActive() *e2e.Server { return c.awaitActiveAmong(c.nodes) }

func (c *cluster) awaitActiveAmong(nodes []*e2e.Server) (active *e2e.Server) {
	if !e2e.Poll(c.o.patience, func() bool {
		for _, s := range nodes {
			if s.Exited() {
				c.h.Fatalf("a node has ended by itself:\n%s", tail(s.Log()))
			}
			var ready struct{ Status string }
			if s.Request("GET", "/readyz", nil, &ready); ready.Status == "ready" {
				active = s
				return true
			}
		}
		return c.h.Context().Err() != nil
	}) {
		for _, s := range nodes {
			_, body := s.Get("/readyz")
			c.h.Logf("%s: %s\n%s", s.Addr, body, tail(s.Log()))
		}
		c.h.Fatalf("no node works after %s", c.o.patience)
	}
	if active == nil {
		c.h.Fatal("interrupted")
	}
	return active
}

// sleep lets a fault last.
func (c *cluster) sleep(d time.Duration) {
	select {
	case <-time.After(d):
	case <-c.h.Context().Done():
	}
}

// promote kills the primary and promotes the standby. The replication ends a moment before, so
// that an asynchronous standby lacks what the primary has confirmed last. A new standby
// replaces the primary, at its address.
func (c *cluster) promote() {
	c.replication.Silence(true)
	if c.o.control == "async" {
		c.sleep(2 * time.Second) // commits go on
	}
	c.replication.Refuse()
	c.primary.Kill()
	c.replication.Silence(false)
	c.replication.Accept(c.h)
	if err := c.standby.Promote(); err != nil {
		c.h.Fatal(err)
	}
	port := c.primary.Port()
	c.primary = c.standby
	c.replication.Route(c.primary.Addr())
	c.owner.follow(c.primary)
	if c.o.control == "async" {
		// Nodes that know of lost commits write no more, until they are started again.
		for _, s := range c.nodes {
			c.kill(s)
			c.spawn(s)
		}
		return
	}
	c.standby = c.primary.StartStandby(c.h, c.replication.Addr, port)
}

// heal ends all faults.
func (c *cluster) heal() {
	c.discord.ClearFaults()
	c.awaitActive()
}

// settle waits until all work has ended, and returns what the world then has.
func (c *cluster) settle(w *work) observed {
	s := c.awaitActive()
	none := func(query string) func() bool { return func() bool { return s.Count(query) == 0 } }
	for _, end := range []struct {
		what    string
		reached func() bool
	}{
		// Discord tells nobody when the bot has read what it missed.
		{"all mentions have arrived", func() bool {
			told := strings.Join(slices.Concat(s.Rows("SELECT CAST(json AS TEXT) FROM history")...), "\n")
			return !slices.ContainsFunc(slices.Collect(maps.Values(w.sent().mentions)), func(text string) bool { return !strings.Contains(told, text) })
		}},
		{"all events are handled", func() bool { return s.Backlog() == 0 }},
		{"all requests have ended", none("SELECT count(*) FROM requests WHERE ended_at = 0")},
		// The end of a request precedes the message that shows it.
		{"all answers are shown", func() bool {
			return len(observed{shown: c.shown()}.unanswered(w.sent().mentions)) == 0
		}},
		{"all webhooks are in Redis", func() bool {
			in := tally(c.mirrored())
			return !slices.ContainsFunc(w.sent().hooks, func(id string) bool { return in["webhook:ci:"+id] == 0 })
		}},
		{"all outgoing messages are out", none("SELECT count(*) FROM outbox WHERE unfinished = 1")},
	} {
		if !e2e.Poll(c.o.patience, end.reached) {
			c.h.Logf("not within %s: %s", c.o.patience, end.what)
			break
		}
	}
	o := observed{order: make([][]string, len(w.sessions))}
	for _, row := range s.Rows("SELECT session_id, CAST(json AS TEXT) FROM history ORDER BY session_id, seq") {
		var m e2e.Said
		if err := json.Unmarshal([]byte(row[1]), &m); err != nil {
			c.h.Fatal(err)
		}
		o.history += row[1] + "\n"
		if m.Role == "user" {
			o.heard = append(o.heard, m.Text())
			if talk := slices.Index(w.sessions, row[0]); talk >= 0 && strings.HasPrefix(m.Text(), "prompt-") {
				o.order[talk] = append(o.order[talk], m.Text())
			}
		} else {
			o.answered = append(o.answered, m.Text())
		}
	}
	o.ran, o.mirrored = c.ran(), c.mirrored()
	for _, e := range s.Topic(string(event.TopicEnv)) {
		o.events = append(o.events, e.ID)
	}
	o.shown = c.shown()
	// A node that takes over does not know yet how much of Discord's limits the other has used.
	o.violations = slices.DeleteFunc(c.discord.TakeViolations(), func(v string) bool { return strings.Contains(v, "avoidable 429") })
	for _, e := range s.Topic("evt.request") {
		if p, err := event.Decode(e); err == nil {
			if l, ok := p.(event.RequestLifecycle); ok && l.State.Ended() {
				o.ended = append(o.ended, e.Headers[event.HeaderRequestID])
			}
		}
	}
	return o
}

// shown returns the bot's messages; see [observed].
func (c *cluster) shown() (out []string) {
	for _, m := range c.discord.Ours(c.discord.General) {
		out = append(out, m.ReplyTo+" "+m.Content)
	}
	return out
}

// mirrored returns the ids of the environment events in Redis.
func (c *cluster) mirrored() (ids []string) {
	reply, err := c.redis.TryDo("XRANGE", "lilac:s:env", "-", "+")
	entries, ok := reply.([]any)
	if err != nil || !ok {
		return nil
	}
	for _, entry := range entries {
		fields := entry.([]any)[1].([]any)
		for i := 0; i+1 < len(fields); i += 2 {
			if fields[i] == "id" {
				ids = append(ids, fields[i+1].(string))
			}
		}
	}
	return ids
}

// ran returns the prompts whose commands have run, once for each time.
func (c *cluster) ran() (out []string) {
	homes, err := filepath.Glob(filepath.Join(c.files, "LILAC_HOMES", "*", "ran"))
	if err != nil {
		c.h.Fatal(err)
	}
	for _, path := range homes {
		data, err := os.ReadFile(path)
		if err != nil {
			c.h.Fatal(err)
		}
		out = append(out, strings.Fields(string(data))...)
	}
	return out
}

func (c *cluster) logs() (all []string) {
	for _, s := range c.nodes {
		all = append(all, s.Addr+":\n"+s.Log())
	}
	return all
}

// tail returns the end of a log.
func tail(log string) string { return log[max(0, len(log)-4000):] }
