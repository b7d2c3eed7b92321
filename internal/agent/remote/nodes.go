package remote

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"lilac/internal/agent/builtin"
	"lilac/internal/agent/tool"
	"lilac/internal/foundation/fault"
)

const (
	// listedFor is the maximum age of a list of the nodes.
	listedFor = time.Second
	// restFor is the time without commands for a node that could not be reached, or has refused one.
	restFor = 30 * time.Second
	// maxSessions bounds the sessions whose nodes are remembered.
	maxSessions = 10_000
)

// Options configure [Nodes]. List, Token, and Key are required.
type Options struct {
	// Here is this node.
	Here Node
	// OwnURL is the address at which the other nodes reach this one.
	OwnURL string
	// List returns the other nodes that can be reached.
	List func(ctx context.Context) ([]Node, error)
	// Token makes the token with which a command calls the tool server of this node.
	Token func(call tool.Call) (token string, revoke func(), err error)
	// Marks are files in the directories that all nodes share; see [Leave].
	Marks []Mark
	// Key is the key of the nodes.
	Key string
	// Silence replaces [DefaultSilence].
	Silence time.Duration
	Logger  *slog.Logger
}

// Nodes chooses the node for each command. It implements [builtin.Nodes].
type Nodes struct {
	opt    Options
	placed *placed
}

var _ builtin.Nodes = (*Nodes)(nil)

// placed holds the loads of the nodes and the node of each session. Nodes with other tokens share it.
type placed struct {
	mu sync.Mutex
	// listed are the other nodes, as of the time at.
	listed []Node
	at     time.Time
	loads  map[string]load
	// sessions has the node of each session; order has the sessions, oldest first.
	sessions map[string]string
	order    []string
	// resting holds the nodes that get no commands.
	resting map[string]rest
}

type rest struct {
	until  time.Time
	reason string
}

// New returns the nodes.
func New(opt Options) *Nodes {
	opt.Logger = cmp.Or(opt.Logger, slog.New(slog.DiscardHandler))
	opt.Silence = cmp.Or(opt.Silence, DefaultSilence)
	return &Nodes{opt, &placed{loads: map[string]load{}, sessions: map[string]string{}, resting: map[string]rest{}}}
}

// WithToken returns the same nodes for commands with other tokens.
func (n *Nodes) WithToken(token func(call tool.Call) (string, func(), error)) *Nodes {
	opt := n.opt
	opt.Token = token
	return &Nodes{opt, n.placed}
}

// Trouble returns why a node runs no commands at the moment, or why the others do not reach this one;
// or "".
func (n *Nodes) Trouble(name string) string {
	n.placed.mu.Lock()
	defer n.placed.mu.Unlock()
	if r := n.placed.resting[name]; time.Now().Before(r.until) {
		return r.reason
	}
	return ""
}

// Troubles returns the troubles of all nodes.
func (n *Nodes) Troubles() (reasons []string) {
	n.placed.mu.Lock()
	defer n.placed.mu.Unlock()
	for _, r := range n.placed.resting {
		if time.Now().Before(r.until) {
			reasons = append(reasons, r.reason)
		}
	}
	slices.Sort(reasons)
	return slices.Compact(reasons)
}

// Run implements [builtin.Nodes].
func (n *Nodes) Run(ctx context.Context, call tool.Call, l builtin.Line, here func() (builtin.Ended, error)) (builtin.Ended, error) {
	for {
		node, done := n.take(ctx, call.SessionID)
		if node.URL == "" {
			defer done()
			return here()
		}
		ended, err := n.runOn(ctx, node, call, l)
		done()
		var refused *refusal
		if !errors.As(err, &refused) || ctx.Err() != nil {
			return ended, err
		}
		n.opt.Logger.WarnContext(ctx, "a node does not run commands; another one does", "node", node.Host, "url", node.URL, "error", refused.err)
		n.placed.rest(node, refused.err)
	}
}

// take chooses a node and counts a command there until done is called.
func (n *Nodes) take(ctx context.Context, sessionID string) (node Node, done func()) {
	p := n.placed
	others := p.others(ctx, n.opt)
	p.mu.Lock()
	defer p.mu.Unlock()
	candidates := []Node{n.opt.Here}
	for _, o := range others {
		if !time.Now().Before(p.resting[o.Name].until) {
			candidates = append(candidates, o)
		}
	}
	node = choose(candidates, p.sessions[sessionID], p.loads)
	p.assignLocked(sessionID, node.Name)
	p.addLocked(node.Name, load{running: 1})
	return node, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.addLocked(node.Name, load{running: -1})
	}
}

// others returns the other nodes, from the last list if it is new enough.
func (p *placed) others(ctx context.Context, opt Options) []Node {
	p.mu.Lock()
	listed, at := p.listed, p.at
	p.mu.Unlock()
	if time.Since(at) < listedFor {
		return listed
	}
	listed, err := opt.List(ctx)
	if err != nil { // the database says so elsewhere; commands run here
		listed = nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listed, p.at = listed, time.Now()
	for name, r := range p.resting {
		if time.Now().After(r.until) {
			delete(p.resting, name)
		}
	}
	return listed
}

func (p *placed) rest(node Node, reason error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.resting[node.Name] = rest{time.Now().Add(restFor), fault.ToWire(reason).Message}
}

func (p *placed) assignLocked(sessionID, node string) {
	before, known := p.sessions[sessionID]
	if known && before == node {
		return
	}
	if known {
		p.addLocked(before, load{sessions: -1})
	} else {
		if len(p.order) >= maxSessions {
			oldest := p.order[0]
			p.order = slices.Delete(p.order, 0, 1)
			p.addLocked(p.sessions[oldest], load{sessions: -1})
			delete(p.sessions, oldest)
		}
		p.order = append(p.order, sessionID)
	}
	p.sessions[sessionID] = node
	p.addLocked(node, load{sessions: 1})
}

func (p *placed) addLocked(node string, more load) {
	now := p.loads[node]
	now.running, now.sessions = now.running+more.running, now.sessions+more.sessions
	if now == (load{}) {
		delete(p.loads, node)
		return
	}
	p.loads[node] = now
}
