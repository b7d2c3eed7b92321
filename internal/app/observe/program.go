package observe

import (
	"context"
	"runtime"
	runtimemetrics "runtime/metrics"
	"time"

	"lilac/internal/engine/bus"
	"lilac/internal/engine/companion"
	"lilac/internal/telemetry/health"
	"lilac/internal/telemetry/metrics"
)

const (
	// scrapeLimit limits the time that a scrape waits for the bus.
	scrapeLimit = 5 * time.Second
	// deadLettersMax is the maximum number of dead letters that a scrape counts. Normally,
	// there are none, and larger numbers would not be more informative.
	deadLettersMax = 1000
	// sharedFor is how long the gauges of one scrape share the groups of the bus.
	sharedFor = time.Second
)

// Bus has the numbers of the bus.
type Bus interface {
	bus.GroupTable
	bus.DeadLetterQueue
}

// Program holds the data sources of the gauges. Gauges of nil functions are omitted.
type Program struct {
	Version string
	Started time.Time
	Bus     Bus
	Health  func() health.Report
	// Running returns the number of running requests, and Sessions the number of sessions
	// with work.
	Running  func() int
	Sessions func(ctx context.Context) (int, error)
	// Redis returns the numbers of the companion in Redis.
	Redis func() companion.Stats
	// LostLogLines returns the number of log lines that could not be written.
	LostLogLines func() int64
	// Waits reports that the process waits while another one is active, and Commands returns the
	// number of commands that it runs for that one.
	Waits    bool
	Commands func() int
}

// Describe declares the gauges of the program. A scrape omits values that cannot be read.
func Describe(r *metrics.Registry, p Program) {
	DescribeProcess(r, p)
	r.Gauge("lilac_part_ok", "1 if a component works, 0 if it failed; the components of /readyz.", func(set func(float64, ...string)) {
		if p.Health == nil {
			return
		}
		for _, part := range p.Health().Parts {
			up := 1.0
			if part.Status == health.Failed {
				up = 0
			}
			set(up, part.Name)
		}
	}, "part")
	r.Gauge("lilac_requests_running", "Running requests.", func(set func(float64, ...string)) {
		if p.Running != nil {
			set(float64(p.Running()))
		}
	})
	r.Gauge("lilac_sessions_active", "Conversations with running or queued requests.", func(set func(float64, ...string)) {
		if p.Sessions == nil {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), scrapeLimit)
		defer cancel()
		if n, err := p.Sessions(ctx); err == nil {
			set(float64(n))
		}
	})
	describeRedis(r, p.Redis)
	describeBus(r, p.Bus)
}

// DescribeProcess declares the gauges that a process also has while it waits.
func DescribeProcess(r *metrics.Registry, p Program) {
	r.Gauge("lilac_build_info", "Always 1; the labels describe the build.", func(set func(float64, ...string)) {
		set(1, p.Version, runtime.Version(), runtime.GOOS+"/"+runtime.GOARCH)
	}, "version", "go", "platform")
	r.CounterOf("lilac_log_lines_lost_total", "Log lines that could not be written, for example because the reader of the log has ended or hangs.", func(set func(float64, ...string)) {
		lost := int64(0)
		if p.LostLogLines != nil {
			lost = p.LostLogLines()
		}
		set(float64(lost))
	})
	r.Gauge("lilac_uptime_seconds", "Seconds since the start.", func(set func(float64, ...string)) { set(time.Since(p.Started).Truncate(time.Second).Seconds()) })
	r.Gauge("lilac_goroutines", "Goroutines.", func(set func(float64, ...string)) { set(float64(runtime.NumGoroutine())) })
	r.Gauge("lilac_memory_bytes", "Memory mapped by the Go runtime.", func(set func(float64, ...string)) {
		sample := []runtimemetrics.Sample{{Name: "/memory/classes/total:bytes"}}
		if runtimemetrics.Read(sample); sample[0].Value.Kind() == runtimemetrics.KindUint64 {
			set(float64(sample[0].Value.Uint64()))
		}
	})
	r.Gauge("lilac_node_active", "1 if this process decides and writes, 0 if it waits while another one does.", func(set func(float64, ...string)) {
		if p.Waits {
			set(0)
			return
		}
		set(1)
	})
	r.Gauge("lilac_node_commands", "Commands of the agent that this process runs for the active one while it waits.", func(set func(float64, ...string)) {
		if p.Commands != nil {
			set(float64(p.Commands()))
		}
	})
}

func describeRedis(r *metrics.Registry, stats func() companion.Stats) {
	each := func(value func(companion.Stats) float64) func(func(float64, ...string)) {
		return func(set func(float64, ...string)) {
			if stats != nil {
				set(value(stats()))
			}
		}
	}
	r.Gauge("lilac_redis_up", "1 if Redis does its work for the bus.", each(func(s companion.Stats) float64 {
		if s.Up {
			return 1
		}
		return 0
	}))
	r.Gauge("lilac_redis_mirror_lag_events", "Events in the database that are not mirrored to Redis yet.", each(func(s companion.Stats) float64 { return float64(s.Lag) }))
	r.CounterOf("lilac_redis_handed_in_total", "Events that other programs handed in through Redis.", each(func(s companion.Stats) float64 { return float64(s.Handed) }))
	r.CounterOf("lilac_redis_rejected_total", "Entries that other programs handed in through Redis and that could not be used.", each(func(s companion.Stats) float64 { return float64(s.Rejected) }))
}

func describeBus(r *metrics.Registry, b Bus) {
	var groups shared
	each := func(value func(bus.GroupStatus) float64) func(func(float64, ...string)) {
		return func(set func(float64, ...string)) {
			for _, g := range groups.of(b) {
				set(value(g), string(g.Topic), g.Group)
			}
		}
	}
	r.Gauge("lilac_bus_group_backlog", "Events that a consumer group has not fetched yet.", each(func(g bus.GroupStatus) float64 { return float64(g.Backlog) }), "topic", "group")
	r.Gauge("lilac_bus_group_pending", "Events that a consumer group has fetched and not finished.", each(func(g bus.GroupStatus) float64 { return float64(g.Pending) }), "topic", "group")
	r.Gauge("lilac_bus_group_oldest_seconds", "Age of the oldest event that a consumer group has not finished.", each(func(g bus.GroupStatus) float64 { return float64(g.OldestMS) / 1000 }), "topic", "group")
	r.Gauge("lilac_bus_group_served", "1 if the consumer group has a consumer.", each(func(g bus.GroupStatus) float64 {
		if g.Active {
			return 1
		}
		return 0
	}), "topic", "group")
	r.Gauge("lilac_bus_dead_letters", "Events that could not be handled and wait for a decision; counted up to 1000.", func(set func(float64, ...string)) {
		if b == nil {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), scrapeLimit)
		defer cancel()
		if letters, err := b.DeadLetters(ctx, "", deadLettersMax); err == nil {
			set(float64(len(letters)))
		}
	})
}
