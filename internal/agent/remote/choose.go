package remote

// Node is a machine that runs commands.
type Node struct {
	// Name identifies the process; a process that starts again has another one.
	Name string
	// Host is the name of the machine, for people.
	Host string
	// URL is the address at which the node is reached; "" means this machine.
	URL string
	// CPUs is the number of its processors.
	CPUs int
}

// load counts the work of a node.
type load struct {
	// running counts the commands that run there, and sessions those that have run commands there.
	running, sessions int
}

// choose returns the node for a command of a session that has run commands on the node before,
// or on none (""). The session stays where it is. Otherwise, it gets the node with the fewest
// commands for each processor, and among those the one with the fewest sessions. The nodes are
// not empty; the first one wins a tie.
func choose(nodes []Node, before string, loads map[string]load) Node {
	best := nodes[0]
	for _, n := range nodes {
		if n.Name == before {
			return n
		}
		if lessBusy(n, best, loads) {
			best = n
		}
	}
	return best
}

func lessBusy(a, b Node, loads map[string]load) bool {
	la, lb, ca, cb := loads[a.Name], loads[b.Name], max(1, a.CPUs), max(1, b.CPUs)
	if la.running*cb != lb.running*ca {
		return la.running*cb < lb.running*ca
	}
	return la.sessions*cb < lb.sessions*ca
}
