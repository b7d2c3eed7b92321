package remote

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"lilac/internal/foundation/delay"
	"lilac/internal/foundation/fault"
)

const (
	// NamePath is the path of the route with the name of a node, for other nodes.
	NamePath = "/node/v1/name"
	// lookEvery is the interval at which the nodes are asked for their names.
	lookEvery = 10 * time.Second
	// maxName bounds the name of a node, in bytes.
	maxName = 512
)

// WriteName answers a request to [NamePath]. The caller has checked the key.
func WriteName(w http.ResponseWriter, name string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, name) // fails only if the other node is gone
}

// Watch looks at the addresses of all nodes until ctx ends: people give several nodes the same
// address, or that of a load balancer. Then requests and commands for one node reach another one.
// [Nodes.Trouble] says so, and a node with such an address gets no commands.
func (n *Nodes) Watch(ctx context.Context) error {
	for delay.Wait(ctx, lookEvery) {
		n.look(ctx)
	}
	return nil
}

func (n *Nodes) look(ctx context.Context) {
	var asked sync.WaitGroup
	for _, node := range append([]Node{{Name: n.opt.Here.Name, URL: n.opt.OwnURL}}, n.placed.others(ctx, n.opt)...) {
		asked.Go(func() {
			// A node that does not answer is noticed when it gets a command. An older version has no name.
			if name, err := n.nameAt(ctx, node.URL); err == nil && name != node.Name {
				n.placed.rest(node, fault.New(fault.Conflict, "At its address %s, another node answers. Set LILAC_NODE_URL on each node to the address of that node alone.", node.URL))
			}
		})
	}
	asked.Wait()
}

// nameAt returns the name of the node at an address.
func (n *Nodes) nameAt(ctx context.Context, address string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	res, err := n.send(ctx, http.MethodGet, address, NamePath)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return "", fmt.Errorf("the node answers %s", res.Status)
	}
	name, err := io.ReadAll(io.LimitReader(res.Body, maxName))
	return string(name), err
}
