package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"lilac/internal/foundation/event"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/llmtest"
)

// cluster is three nodes on one database that share their files. The first one is active at first.
type cluster struct {
	t     *testing.T
	nodes []*e2e.Server
	dir   string
}

// runsWhatItIsTold is a model that runs each message as a command, and answers with the output.
func runsWhatItIsTold(r llmtest.Request) llmtest.Script {
	last := r.Messages[len(r.Messages)-1]
	for _, result := range last.Results {
		return llmtest.Script{Text: []string{"It said: ", result}}
	}
	command, _ := json.Marshal(map[string]any{"command": last.Text})
	return llmtest.Script{Calls: []llmtest.Call{{ID: fmt.Sprintf("call-%d", r.N), Name: "bash", Input: string(command)}}}
}

func startCluster(t *testing.T, env ...string) *cluster {
	t.Helper()
	needsCommands(t)
	c := &cluster{t: t, dir: t.TempDir()}
	model := llmtest.New(t, runsWhatItIsTold)
	common := append(e2e.Postgres(t), modelEnv(model.URL)...)
	common = append(common, env...)
	for _, name := range []string{"LILAC_WORKSPACE=workspace", "LILAC_OWN_WORKSPACES=own", "LILAC_HOMES=homes", "LILAC_BLOBS=blobs"} {
		variable, dir, _ := strings.Cut(name, "=")
		common = append(common, variable+"="+filepath.Join(c.dir, dir))
	}
	for i := range 3 {
		s := e2e.New(t, common...)
		s.Env = append(s.Env, "LILAC_NODE_URL=http://"+s.Addr)
		c.nodes = append(c.nodes, s)
		s.Restart()
		if i > 0 && c.status(s) != "standby" {
			t.Fatalf("node %d is not a standby", i)
		}
	}
	e2e.Eventually(t, answerWithin, "three nodes are listed", func() bool { return len(c.list(c.nodes[0])) == 3 })
	return c
}

func (c *cluster) status(s *e2e.Server) string {
	var ready struct{ Status string }
	s.Request("GET", "/readyz", nil, &ready)
	return ready.Status
}

type listedNode struct {
	PID     string
	Active  bool
	Trouble string
}

func (c *cluster) list(s *e2e.Server) []listedNode {
	var list struct{ Nodes []listedNode }
	s.Request("GET", "/nodes", nil, &list)
	return list.Nodes
}

// runningOn returns the node that the command of a session runs on, from the file that the command
// wrote its $LILAC_NODE to.
func (c *cluster) runningOn(file string) (at *e2e.Server) {
	c.t.Helper()
	e2e.Eventually(c.t, answerWithin, "the command runs", func() bool {
		data, err := os.ReadFile(filepath.Join(c.dir, "own", file))
		parts := strings.Split(string(data), "/") // host/process/name
		if err != nil || len(parts) != 3 {
			return false
		}
		for _, s := range c.nodes {
			if strconv.Itoa(s.PID()) == parts[1] {
				at = s
			}
		}
		return at != nil
	})
	return at
}

func saidLast(s *e2e.Server, session string) (text string) {
	for _, m := range s.Messages(session) {
		if m.Role == "assistant" {
			text = m.Text()
		}
	}
	return text
}

// Each node takes requests, and each runs commands. Commands reach the tool server of the active
// node, and conversations keep their files and their homes. A takeover moves everything.
func TestEveryNodeTakesRequestsAndRunsCommands(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	used := map[string]bool{}
	var sessions []string
	for i := range 6 {
		s := c.nodes[i%3]
		session := s.NewSession()
		sessions = append(sessions, session)
		s.WaitEnded(s.Prompt(session, `echo "on $LILAC_NODE"; echo mark >> ~/note; tools --list | grep -c workflow.list; pwd`, event.Prompt).RequestID, answerWithin)
		said := saidLast(c.nodes[(i+1)%3], session)
		_, node, _ := strings.Cut(strings.SplitN(said, "\n", 2)[0], "on ")
		if used[node] = true; !strings.Contains(said, "\n1\n"+filepath.Join(c.dir, "own", "s-"+session)) {
			t.Errorf("the command said %q", said)
		}
	}
	if len(used) != 3 {
		t.Errorf("the commands ran on %d nodes: %v", len(used), used)
	}
	for _, n := range c.list(c.nodes[2]) {
		if n.Trouble != "" {
			t.Errorf("a node has the trouble %q", n.Trouble)
		}
	}
	// An unknown token, an unknown route, and a body pass through a waiting node as they are.
	if code := c.nodes[1].Request("GET", "/sessions", nil, nil, "Authorization", "Bearer wrong"); code != http.StatusUnauthorized {
		t.Errorf("a waiting node answers a wrong token with %d", code)
	}
	if code, body := c.nodes[1].Get("/no-such-route"); code != http.StatusNotFound || !strings.Contains(body, `"error"`) {
		t.Errorf("a waiting node answers an unknown route with %d: %s", code, body)
	}
	if code := c.nodes[1].Request("POST", "/node/v1/commands", nil, nil); code != http.StatusUnauthorized {
		t.Errorf("a client gets %d where only nodes may call", code)
	}
	if code := c.nodes[0].Request("GET", "/node/v1/tools/list", nil, nil); code != http.StatusNotFound {
		t.Errorf("a client gets %d where only nodes may call the tools", code)
	}
	for i, s := range c.nodes {
		active := map[bool]string{true: "lilac_node_active 1", false: "lilac_node_active 0"}[i == 0]
		if code, body := s.Get("/metrics"); code != http.StatusOK || !strings.Contains(body, active) {
			t.Errorf("node %d has the metrics (%d), want %s:\n%s", i, code, active, body)
		}
		if code := s.Request("GET", "/metrics", nil, nil, "Authorization", "Bearer wrong"); code != http.StatusUnauthorized {
			t.Errorf("node %d answers a wrong token with %d", i, code)
		}
	}
	c.nodes[0].Terminate(answerWithin)
	e2e.Eventually(t, answerWithin, "another node is active", func() bool { return c.status(c.nodes[1]) == "ready" || c.status(c.nodes[2]) == "ready" })
	for i, session := range sessions[:3] {
		s := c.nodes[1+i%2]
		s.WaitEnded(s.Prompt(session, `cat ~/note`, event.Prompt).RequestID, answerWithin)
		if said := saidLast(s, session); said != "It said: mark" {
			t.Errorf("after the takeover, the command said %q", said)
		}
	}
}

// A node dies while it runs a command. The command does not run again, the model is told, and the
// request goes on.
func TestALostNodeTakesItsCommandWithIt(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	busy := c.nodes[0].NewSession() // makes the active node the busier one
	c.nodes[0].Prompt(busy, `echo -n "$LILAC_NODE" > at; sleep 600`, event.Prompt)
	c.runningOn("s-" + busy + "/at")
	session := c.nodes[0].NewSession()
	sent := c.nodes[0].Prompt(session, `echo begun >> ~/begun; echo said; echo -n "$LILAC_NODE" > at; sleep 600`, event.Prompt)
	at := c.runningOn("s-" + session + "/at")
	if at == c.nodes[0] {
		t.Fatal("the command runs on the active node")
	}
	at.Kill()
	began := time.Now()
	c.nodes[0].WaitEnded(sent.RequestID, answerWithin)
	if said := saidLast(c.nodes[0], session); !strings.Contains(said, "said") || !strings.Contains(said, "the machine that ran it was lost") {
		t.Errorf("after %s, the model was told %q", time.Since(began), said)
	}
	begun, err := os.ReadFile(filepath.Join(c.dir, "homes", "s-"+session, "begun"))
	if err != nil || string(begun) != "begun\n" {
		t.Errorf("the command began %q, %v", begun, err)
	}
	// The kernel ends them when it has ended the node.
	e2e.Eventually(t, answerWithin, "no process of the command is left", func() bool { return len(commandsOf(t, session)) == 0 })
	// The next command of the session runs elsewhere.
	c.nodes[0].WaitEnded(c.nodes[0].Prompt(session, `cat ~/begun`, event.Prompt).RequestID, answerWithin)
	if said := saidLast(c.nodes[0], session); said != "It said: begun" {
		t.Errorf("the next command said %q", said)
	}
	c.nodes[0].Cancel(busy)
}

// The active node hangs, or dies, while another one runs a command for it. The command ends before
// the next node is active, and the request goes on there and ends once.
func TestACommandDoesNotOutliveTheActiveNode(t *testing.T) {
	for name, fail := range map[string]func(*e2e.Server){"it dies": (*e2e.Server).Kill, "it hangs": (*e2e.Server).Pause} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := startCluster(t, "LILAC_LEASE=4s")
			busy := c.nodes[0].NewSession()
			c.nodes[0].Prompt(busy, `echo -n "$LILAC_NODE" > at; sleep 600`, event.Prompt)
			c.runningOn("s-" + busy + "/at")
			session := c.nodes[0].NewSession()
			sent := c.nodes[0].Prompt(session, `echo begun >> ~/begun; echo -n "$LILAC_NODE" > at; sleep 600`, event.Prompt)
			if at := c.runningOn("s-" + session + "/at"); at == c.nodes[0] {
				t.Fatal("the command runs on the active node")
			}
			if len(commandsOf(t, session)) == 0 {
				t.Error("control: the processes of the command are not seen")
			}
			fail(c.nodes[0])
			var next *e2e.Server
			e2e.Eventually(t, answerWithin, "another node is active", func() bool {
				for _, s := range c.nodes[1:] {
					if c.status(s) == "ready" {
						next = s
					}
				}
				return next != nil
			})
			if left := commandsOf(t, session); len(left) > 0 {
				t.Errorf("when the next node is active, the processes %v are left", left)
			}
			next.WaitEnded(sent.RequestID, answerWithin)
			if said := saidLast(next, session); !strings.Contains(said, unknownOutcome) {
				t.Errorf("the model was told %q", said)
			}
			begun, err := os.ReadFile(filepath.Join(c.dir, "homes", "s-"+session, "begun"))
			if err != nil || string(begun) != "begun\n" {
				t.Errorf("the command began %q, %v", begun, err)
			}
			if n := countEnds(next); n > 2 {
				t.Errorf("%d ends of two requests", n)
			}
		})
	}
}

// The control of the tests above: without its journal, the next active node runs the command again.
func TestControlACommandThatIsForgottenBeginsAgain(t *testing.T) {
	t.Parallel()
	c := startCluster(t, "LILAC_LEASE=4s", "LILAC_WITHOUT=journal")
	session := c.nodes[0].NewSession()
	c.nodes[0].Prompt(session, `echo begun >> ~/begun; echo -n "$LILAC_NODE" > at; sleep 600`, event.Prompt)
	c.runningOn("s-" + session + "/at")
	c.nodes[0].Kill()
	e2e.Eventually(t, answerWithin, "the command has begun twice", func() bool {
		begun, err := os.ReadFile(filepath.Join(c.dir, "homes", "s-"+session, "begun"))
		return err == nil && string(begun) == "begun\nbegun\n"
	})
}

// The active node dies, and people go on writing at the other nodes. Their requests wait and are then
// answered, also by the node that becomes the active one, although nothing could be sent again.
func TestRequestsWaitThroughATakeover(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	session := c.nodes[0].NewSession()
	c.nodes[0].Kill()
	const each = 4
	type result struct {
		accepted e2e.Accepted
		node     int
		code     int
	}
	results := make(chan result)
	for i, s := range c.nodes[1:] {
		for n := range each {
			go func() {
				a, code := s.TryPrompt(session, fmt.Sprintf("echo %d.%d", i, n), event.Prompt, "")
				results <- result{a, i + 1, code}
			}()
		}
	}
	for range 2 * each {
		r := <-results
		if r.code != http.StatusOK {
			t.Errorf("a request at node %d gets %d", r.node, r.code)
			continue
		}
		c.nodes[r.node].WaitEnded(r.accepted.RequestID, answerWithin)
	}
}

// A stop of the active node fails no request at the others, although nothing could be sent again.
func TestAStopOfTheActiveNodeFailsNoRequest(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	session := c.nodes[0].NewSession()
	stop, failed := make(chan struct{}), make(chan string)
	const people = 8
	for i := range people {
		s := c.nodes[1+i%2]
		go func() {
			wrong := ""
			for n := 0; wrong == ""; n++ {
				select {
				case <-stop:
					failed <- wrong
					return
				default:
				}
				if _, code := s.TryPrompt(session, fmt.Sprintf("echo %d.%d", i, n), event.Prompt, ""); code != http.StatusOK {
					wrong = fmt.Sprintf("prompt %d of person %d gets %d", n, i, code)
				}
			}
			failed <- wrong
		}()
	}
	c.nodes[0].Terminate(answerWithin)
	e2e.Eventually(t, answerWithin, "another node is active", func() bool { return c.status(c.nodes[1]) == "ready" || c.status(c.nodes[2]) == "ready" })
	close(stop)
	for range people {
		if wrong := <-failed; wrong != "" {
			t.Error(wrong)
		}
	}
}

// A stream on one node shows everything of an answer once, although the active node changes.
func TestAStreamFollowsThroughATakeover(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	session := c.nodes[0].NewSession()
	reader := follow(t, c.nodes[2], session)
	var sent []e2e.Accepted
	for i := range 6 {
		sent = append(sent, c.nodes[i%3].Prompt(session, fmt.Sprintf("echo %d; sleep 0.3", i), event.Prompt))
		if i == 2 {
			c.nodes[0].Kill()
			c.nodes[0].Restart()
		}
	}
	for _, a := range sent {
		c.nodes[1].WaitEnded(a.RequestID, answerWithin)
	}
	e2e.Eventually(t, answerWithin, "the stream shows every end", func() bool {
		reader.mu.Lock()
		defer reader.mu.Unlock()
		for _, a := range sent {
			if !reader.over[a.RequestID] {
				return false
			}
		}
		return true
	})
	reader.mu.Lock()
	defer reader.mu.Unlock()
	if len(reader.wrong) > 0 {
		t.Errorf("the stream: %v", reader.wrong)
	}
}

// The nodes are upgraded one after the other, those that wait first, as docs/scale.md says. Everything
// that is accepted meanwhile is answered once, and the next node is active soon. The old version
// then refuses the database by name.
func TestARollingUpgradeLosesNothing(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	people := make([]*prompts, len(c.nodes))
	for i, s := range c.nodes {
		people[i] = sendPrompts(t, s, 2)
	}
	grow := func() {
		for i, p := range people {
			if !p.grows(3) {
				t.Fatalf("node %d accepts no prompt", i)
			}
		}
	}
	grow()
	for _, s := range c.nodes[1:] {
		s.Terminate(answerWithin)
		s.Restart("LILAC_NEXT_VERSION=1")
	}
	if c.status(c.nodes[0]) != "ready" {
		t.Error("the old version does not work anymore, although it is active")
	}
	grow()
	c.nodes[0].Terminate(answerWithin)
	began := time.Now()
	e2e.Eventually(t, effort.Within(takesOverAfterStop), "the new version is active", func() bool { return c.status(c.nodes[1]) == "ready" || c.status(c.nodes[2]) == "ready" })
	t.Logf("the takeover took %s", time.Since(began))
	c.nodes[0].Restart("LILAC_NEXT_VERSION=1")
	grow()
	for _, p := range people {
		p.stop()
	}
	var got failovers
	for _, p := range people {
		p.check(t, c.nodes[1], &got)
	}
	if got.lost > 0 || got.twice > 0 {
		t.Errorf("%+v", got)
	}
	old := e2e.New(t, c.nodes[0].Env...)
	old.Spawn()
	if !old.WaitExit(answerWithin) || !strings.Contains(old.Log(), "newer version") {
		t.Errorf("the old version uses the new database:\n%s", old.Log())
	}
}

// The work of commands is divided among the nodes: each of the others does at least 0.8 of what the
// active one does.
func TestNodesShareTheWorkOfCommands(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	var sessions, sent []string
	for range 12 { // one after the other, so that each node gets as many conversations
		session := c.nodes[0].NewSession()
		c.nodes[0].WaitEnded(c.nodes[0].Prompt(session, "true", event.Prompt).RequestID, answerWithin)
		sessions = append(sessions, session)
	}
	var before [3]ticks
	for i, s := range c.nodes {
		before[i] = ticksOf(t, s.PID())
	}
	for i, session := range sessions {
		sent = append(sent, c.nodes[i%3].Prompt(session, "seq 6000000 | sha256sum", event.Prompt).RequestID)
	}
	for _, request := range sent {
		c.nodes[0].WaitEnded(request, 3*answerWithin)
	}
	var own, commands [3]int64
	for i, s := range c.nodes {
		now := ticksOf(t, s.PID())
		own[i], commands[i] = now.own-before[i].own, now.commands-before[i].commands
	}
	t.Logf("ticks of the processor: %v for commands, and %v for everything else", commands, own)
	for i, n := range commands[1:] {
		if 10*n < 8*commands[0] {
			t.Errorf("the commands of node %d have used %d ticks, and those of the active node %d", i+1, n, commands[0])
		}
	}
}

// ticks are the processor time of a process and of its commands that have ended.
type ticks struct{ own, commands int64 }

func ticksOf(t *testing.T, pid int) ticks {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+2:]))
	var n [4]int64
	for i := range n { // proc(5): utime, stime, cutime, cstime
		if n[i], err = strconv.ParseInt(fields[11+i], 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	return ticks{n[0] + n[1], n[2] + n[3]}
}
