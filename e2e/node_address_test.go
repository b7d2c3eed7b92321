package e2e_test

import (
	"strconv"
	"strings"
	"testing"

	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/effort"
)

// Somebody gives all nodes the same environment, with the address of one of them. The nodes say so.
func TestNodesWithTheSameAddressAreNoticed(t *testing.T) {
	effort.SkipSlow(t)
	t.Parallel()
	var nodes []*e2e.Server
	database := e2e.Postgres(t)
	for range 3 {
		nodes = append(nodes, e2e.New(t, append(database, "LILAC_MODEL=demo")...))
	}
	for i, s := range nodes {
		s.Env = append(s.Env, "LILAC_NODE_URL=http://"+nodes[1].Addr)
		if s.Spawn(); i == 0 {
			s.WaitReady()
		}
	}
	const says = "another node answers. Set LILAC_NODE_URL on each node to the address of that node alone."
	e2e.Eventually(t, answerWithin, "the active node and the third one are said to have a wrong address", func() bool {
		var list struct{ Nodes []listedNode }
		nodes[0].Request("GET", "/nodes", nil, &list)
		wrong := map[string]bool{}
		for _, n := range list.Nodes {
			wrong[n.PID] = strings.Contains(n.Trouble, says)
		}
		return len(wrong) == 3 && wrong[strconv.Itoa(nodes[0].PID())] && !wrong[strconv.Itoa(nodes[1].PID())] && wrong[strconv.Itoa(nodes[2].PID())]
	})
	if list := lilac(t, nodes[0], "nodes"); strings.Count(list, says) != 2 || !strings.Contains(list, "active, but the others do not reach it") {
		t.Errorf("lilac nodes says\n%s", list)
	}
	if _, ready := nodes[0].Get("/readyz"); !strings.Contains(ready, `not every node works with the others`) {
		t.Errorf("the active node says %s", ready)
	}
	if _, ready := nodes[2].Get("/readyz"); !strings.Contains(ready, "a node answers that waits, too") {
		t.Errorf("a waiting node says %s", ready)
	}
}
