// Command lilac-chaos proves from outside that Lilac loses nothing and answers everything
// once, on several processes. It starts three nodes on a pair of PostgreSQL servers, with a
// network link in front of each, a fake model, and a fake Discord; people write, webhooks
// arrive, and meanwhile it kills, stops, cuts, slows, promotes, and upgrades. At the end it
// heals everything, waits until all work has ended, and counts.
//
//	go run ./internal/testkit/lilac-chaos -time 10m
//
// It needs the programs of PostgreSQL 15 or later and of Redis, and sends traffic to loopback only. It
// ends with status 1 if a promise was broken, and prints the seed with which the faults can
// be repeated in the same order.
//
// Controls show that the count is not blind: each must find losses or doubles. -control async
// commits without waiting for the standby; -without NAME disables a safeguard of the program
// (see package killpoints).
//
// One node decides and writes at a time. The others pass requests on to it, and run commands for it.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"lilac/internal/testkit/e2e"
)

func main() {
	var o options
	flag.DurationVar(&o.time, "time", 3*time.Minute, "how long faults happen")
	flag.IntVar(&o.nodes, "nodes", 3, "number of nodes")
	flag.IntVar(&o.people, "people", 4, "number of people who write over HTTP")
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "`seed` of the order of faults")
	flag.DurationVar(&o.lease, "lease", 3*time.Second, "duration of the lease; 10s in production")
	flag.DurationVar(&o.skew, "skew", 0, "how wrong the clocks of the nodes are at most; each node starts with another error, which changes once (builds the nodes with a changed package time, which takes minutes the first time)")
	flag.StringVar(&o.only, "only", "", "only the faults whose names begin with this `text`, such as \"kill -9\"")
	flag.StringVar(&o.control, "control", "", "async: the standby of PostgreSQL is asynchronous, so that commits are lost")
	flag.StringVar(&o.without, "without", "", "safeguards of the program to disable, as `names` separated by commas")
	flag.DurationVar(&o.patience, "patience", 2*time.Minute, "how long to wait for a node that works, and for the end of all work")
	flag.BoolVar(&o.verbose, "v", false, "print the log of the nodes after a broken promise")
	flag.Parse()
	if flag.NArg() > 0 || o.control != "" && o.control != "async" || o.nodes < 2 || o.people < 1 || o.skew < 0 || o.only != "" && len(faultsLike(o.only)) == 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	h := newHost(ctx)
	var r report
	h.run(func() { r = endure(h, o) })
	stop()
	e2e.RemoveBinary()
	if !h.Failed() {
		fmt.Print(r)
	}
	if h.Failed() || len(r.broken()) > 0 {
		os.Exit(1)
	}
}

type options struct {
	time, lease, patience time.Duration
	skew                  time.Duration
	nodes, people         int
	seed                  uint64
	control, without      string
	only                  string
	verbose               bool
}

// endure runs the whole proof.
func endure(h *host, o options) report {
	c := startCluster(h, o)
	w := startWork(h, c, o.people)
	random := rand.New(rand.NewPCG(o.seed, 0))
	fmt.Printf("seed %d: %d nodes, %s of faults\n", o.seed, o.nodes, o.time)
	r := report{faults: map[string]int{}}
	w.grows(h)
	for began := time.Now(); time.Since(began) < o.time && h.Context().Err() == nil; {
		f := next(random, o)
		fmt.Printf("%6.1fs  %s\n", time.Since(began).Seconds(), f)
		silent := c.suffer(f, random)
		r.faults[f]++
		r.silences = append(r.silences, silent)
		if f == promote && o.control == "async" {
			break // what is lost is lost; the nodes stop writing until an operator looks
		}
		w.grows(h) // the next fault finds work again
	}
	w.stop()
	c.heal()
	r.looks = c.owner.end()
	fmt.Println("everything is healed; waiting for the end of all work")
	r.observed = c.settle(w)
	r.sent = w.sent()
	if len(r.broken()) > 0 && o.verbose {
		fmt.Println(strings.Join(c.logs(), "\n"))
	}
	return r
}
