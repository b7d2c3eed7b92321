package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"lilac/internal/agent/builtin"
	"lilac/internal/agent/remote"
	"lilac/internal/agent/sandbox"
	"lilac/internal/agent/tool"
	"lilac/internal/engine/db"
	"lilac/internal/operate/config"
)

// toolsPath is the prefix of the active node's routes for calls of commands on other nodes.
const toolsPath = "/node/v1/tools"

// nodeSilence is the time after which a node that says nothing counts as lost: less than the time
// after which another node takes over.
func (o *Options) nodeSilence() time.Duration {
	if o.Seams.Lease > 0 {
		return o.Seams.Lease * time.Duration(remote.DefaultSilence) / time.Duration(db.LeaseDuration)
	}
	return remote.DefaultSilence
}

// nodeVariable tells commands on which node they run.
func nodeVariable(node string) []string { return []string{"LILAC_NODE=" + node} }

// worker runs commands for the active node while this one waits.
type worker struct {
	box     *sandbox.Opening
	sockets toolSockets
	served  chan error
	server  *remote.Server
}

// openWorker opens the worker of a node whose commands call the tool server through calls. The
// caller owns the data directory, and must call close.
func openWorker(ctx context.Context, o *Options, node string, calls http.Handler) (_ *worker, err error) {
	w := &worker{box: sandbox.Start(ctx, o.Config.Sandbox.Mode), served: make(chan error, 1)}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("get ready to run commands for another node: %w", err), w.close())
		}
	}()
	if err := w.sockets.open(o.Config); err != nil {
		return nil, err
	}
	if err := w.sockets.listen(ctx, o.Config, ""); err != nil {
		return nil, err
	}
	homes := sessionDirs{config.HomesDir(o.Config)}
	opts, err := toolOptions(o.Config, w.box, w.sockets.dir.Path, nil, nil, o.Logger)
	if err != nil {
		return nil, err
	}
	opts.Home, opts.Env = homes.make, nodeVariable(node)
	shell, err := builtin.NewShell(opts)
	if err != nil {
		return nil, err
	}
	w.server = remote.NewServer(remote.ServerOptions{
		Run: shell.Run, Ready: w.box.Wait, Access: func(token string) builtin.Access { return givenToken{&w.sockets, token} },
		Key: remote.Key(o.Config.Token.Reveal()), Silence: o.nodeSilence(), Logger: o.Logger,
	})
	go func() { w.served <- w.sockets.endpoint.Serve(calls, o.Logger) }()
	return w, nil
}

// close ends the commands that run, and waits for them.
func (w *worker) close() error {
	_ = w.box.Wait() // its error is reported for each command
	if w.server == nil {
		return w.sockets.close()
	}
	w.server.Close()
	return errors.Join(w.sockets.close(), <-w.served)
}

// givenToken is the access of a command that has a token of the active node.
type givenToken struct {
	sockets *toolSockets
	token   string
}

// Open implements [builtin.Access].
func (g givenToken) Open(tool.Call) (builtin.Pass, error) {
	return g.sockets.pass(g.token, func() {}), nil
}

// openNodes returns the nodes that commands can run on; nil if there is only this one.
func (b toolBuilder) openNodes(token func(call tool.Call) (string, func(), error)) (*remote.Nodes, error) {
	if b.Config.Node.URL == "" || b.lease == nil {
		return nil, nil
	}
	marks, err := b.markSharedFiles()
	if err != nil {
		return nil, err
	}
	here := b.lease.Node()
	return remote.New(remote.Options{
		Here: remote.Node{Name: here, CPUs: runtime.GOMAXPROCS(0)}, OwnURL: b.Config.Node.URL, Marks: marks, Key: remote.Key(b.Config.Token.Reveal()), Silence: b.nodeSilence(), Token: token,
		List: func(ctx context.Context) (out []remote.Node, err error) {
			err = b.db.Read(ctx, func(q db.Queryer) error {
				nodes, err := db.Nodes(q)
				out = reachable(nodes, here, b.nodeSilence())
				return err
			})
			if err != nil && ctx.Err() == nil {
				b.Logger.Warn("cannot list the other nodes; commands run on this one", "error", err)
			}
			return out, err
		},
		Logger: b.Logger,
	}), nil
}

// reachable returns the nodes other than this one that run commands. For a moment after a crash, the
// list still has this node's former process, whose address leads to this one.
func reachable(nodes []db.Node, here string, silence time.Duration) (out []remote.Node) {
	at := slices.IndexFunc(nodes, func(n db.Node) bool { return n.Name == here })
	for _, n := range nodes {
		former := at < 0 || n.URL == nodes[at].URL && n.Seen <= nodes[at].Since
		if n.Name != here && n.URL != "" && !former && time.Duration(n.SilentMS)*time.Millisecond < silence {
			out = append(out, remote.Node{Name: n.Name, Host: n.Host, URL: n.URL, CPUs: n.CPUs})
		}
	}
	return out
}

// markSharedFiles marks the directories that all nodes have to share.
func (b toolBuilder) markSharedFiles() ([]remote.Mark, error) {
	inWorkspace := filepath.Join(b.Config.Workspace, ".lilac")
	if err := os.MkdirAll(inWorkspace, 0o755); err != nil {
		return nil, fmt.Errorf("mark the workspace for the other nodes: %w", err)
	}
	return remote.Leave(inWorkspace, b.workspaces.dir)
}
