package redistest

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"lilac/internal/testkit/freeport"
)

// slots is the number of hash slots of a cluster.
const slots = 16384

// StartCluster starts n masters that share the slots of a cluster, without replicas.
func StartCluster(t testing.TB, n int) []*Server {
	t.Helper()
	servers := make([]*Server, n)
	ports := make([]string, n)
	for i := range servers {
		_, port, err := net.SplitHostPort(freeport.Loopback(t))
		if err != nil {
			t.Fatal(err)
		}
		ports[i] = port
		servers[i] = Start(t, Options{Config: []string{
			"cluster-enabled yes", "cluster-config-file nodes.conf", "cluster-port " + port, "cluster-announce-ip 127.0.0.1", "cluster-node-timeout 5000",
		}})
	}
	for i, s := range servers {
		s.Do("CLUSTER", "ADDSLOTSRANGE", fmt.Sprint(i*slots/n), fmt.Sprint((i+1)*slots/n-1))
		host, port, err := net.SplitHostPort(s.Addr)
		if err != nil {
			t.Fatal(err)
		}
		servers[0].Do("CLUSTER", "MEET", host, port, ports[i])
	}
	deadline := time.Now().Add(startWithin)
	for _, s := range servers {
		for {
			info, _ := s.Do("CLUSTER", "INFO").(string)
			if strings.Contains(info, "cluster_state:ok") && strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d\r", n)) {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("the cluster is not complete within %s:\n%s", startWithin, info)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	return servers
}

// StartSentinel starts a sentinel that watches a master as "ours", and returns its
// address. more is added to its configuration.
func StartSentinel(t testing.TB, master *Server, more ...string) (addr string) {
	t.Helper()
	host, port, err := net.SplitHostPort(master.Addr)
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(t, Options{})
	s.sentinel = true
	_, own, err := net.SplitHostPort(s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	lines := append([]string{
		"bind 127.0.0.1", "port " + own, "dir " + s.dir, "sentinel monitor ours " + host + " " + port + " 1",
		"sentinel down-after-milliseconds ours 500", "sentinel failover-timeout ours 5000",
	}, more...)
	s.write(lines)
	s.Restart()
	return s.Addr
}
