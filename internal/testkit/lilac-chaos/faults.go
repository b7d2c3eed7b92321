package main

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"lilac/internal/testkit/discordtest"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/faultproxy"
)

// The faults.
const (
	killActive    = "kill -9 the active node"
	killStandby   = "kill -9 a standby"
	hangActive    = "SIGSTOP the active node for three leases"
	hangBriefly   = "SIGSTOP the active node for half a lease"
	upgradeActive = "restart the active node"
	cutDatabase   = "cut all connections to PostgreSQL"
	slowDatabase  = "slow PostgreSQL by 50 ms"
	loseAnswers   = "lose the answers of PostgreSQL"
	promote       = "kill PostgreSQL's primary and promote its standby"
	cutNodes      = "cut all connections between the nodes"
	silenceNodes  = "nothing passes between the nodes for a lease"
	flushRedis    = "Redis loses everything"
	killRedis     = "kill -9 Redis, which keeps nothing"
	dropGateway   = "drop Discord's gateway"
	refuseDiscord = "Discord's API fails"
)

// weights says how often each fault happens, in order.
var weights = []struct {
	fault  string
	weight int
}{
	{killActive, 6},
	{killStandby, 2},
	{hangActive, 2},
	{hangBriefly, 2},
	{upgradeActive, 3},
	{cutDatabase, 3},
	{slowDatabase, 2},
	{loseAnswers, 3},
	{promote, 2},
	{cutNodes, 3},
	{silenceNodes, 2},
	{flushRedis, 2},
	{killRedis, 2},
	{dropGateway, 3},
	{refuseDiscord, 3},
}

// next chooses a fault. A control has only the fault that it needs, because the first one may take
// all the time.
func next(random *rand.Rand, o options) string {
	switch {
	case o.control == "async":
		return promote
	case o.without == "recovery":
		return killActive
	}
	return faultsLike(o.only)[random.IntN(len(faultsLike(o.only)))]
}

// faultsLike returns the faults whose names begin with a text, each as often as its weight.
func faultsLike(prefix string) (out []string) {
	for _, w := range weights {
		if strings.HasPrefix(w.fault, prefix) {
			out = append(out, slices.Repeat([]string{w.fault}, w.weight)...)
		}
	}
	return out
}

// suffer lets a fault happen, waits until a node works again, and returns for how long none
// did.
func (c *cluster) suffer(fault string, random *rand.Rand) time.Duration {
	active := c.awaitActive()
	began := time.Now()
	switch fault {
	case killActive:
		c.kill(active)
		c.spawn(active)
	case killStandby:
		other := c.others(active)[random.IntN(len(c.nodes)-1)]
		c.kill(other)
		c.spawn(other)
	case hangActive:
		active.Pause()
		c.awaitActiveAmong(c.others(active))
		silent := time.Since(began)
		c.sleep(3*c.o.lease - silent)
		active.Resume()
		return silent
	case hangBriefly:
		active.Pause()
		c.sleep(c.o.lease / 2)
		active.Resume()
	case upgradeActive:
		active.Terminate(c.o.patience)
		c.discord.Forgotten()
		c.spawn(active)
	case cutDatabase:
		each(c.links, (*faultproxy.Proxy).Cut)
	case slowDatabase:
		each(c.links, func(l *faultproxy.Proxy) { l.Delay(50 * time.Millisecond) })
		c.sleep(c.o.lease)
		each(c.links, func(l *faultproxy.Proxy) { l.Delay(0) })
	case loseAnswers:
		each(c.links, func(l *faultproxy.Proxy) { l.LoseAnswers(true) })
		c.sleep(300 * time.Millisecond)
		each(c.links, (*faultproxy.Proxy).Cut)
		each(c.links, func(l *faultproxy.Proxy) { l.LoseAnswers(false) })
	case promote:
		c.promote()
	case cutNodes:
		each(c.between, (*faultproxy.Proxy).Cut)
	case silenceNodes:
		each(c.between, func(l *faultproxy.Proxy) { l.Silence(true) })
		c.sleep(c.o.lease)
		each(c.between, func(l *faultproxy.Proxy) { l.Silence(false) })
	case flushRedis:
		c.redis.FlushAll()
	case killRedis:
		c.redis.Kill()
		c.sleep(time.Second)
		c.redis.Restart()
	case dropGateway:
		c.discord.DropGateway(discordtest.Cut)
	case refuseDiscord:
		c.discord.Fail("POST /channels/{channel}/messages", discordtest.CutAfter, 1)
		c.discord.Fail("PATCH /channels/{channel}/messages/{message}", discordtest.BadGateway, 3)
	}
	c.awaitActive()
	return time.Since(began)
}

// kill kills a node. The fake Discord then expects that the next process does not know its
// rate limits yet.
func (c *cluster) kill(s *e2e.Server) {
	s.Kill()
	c.discord.Forgotten()
}
