package app

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/faultproxy"
	"lilac/internal/testkit/llmtest"
	"lilac/internal/testkit/postgrestest"
)

const (
	// mostTripsOfCommits limits the round trips to PostgreSQL of the three commits that lead from a
	// prompt to a run: that of the prompt, that of its event, and that of the request.
	mostTripsOfCommits = 5
	// mostTrips limits all round trips from a prompt to the model call, including those of what
	// happens at the same time.
	mostTrips = 10
)

// trips counts round trips.
type trips struct {
	mu  sync.Mutex
	all [][]string
}

func (c *trips) add(statements []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, statements)
}

// take returns the round trips since the last call.
func (c *trips) take() [][]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.all
	c.all = nil
	return out
}

// publishing counts the transactions that published events, and their round trips. A read that
// another connection continues meanwhile counts as well.
func publishing(all [][]string) (commits, trips int) {
	open, published := 0, false
	for _, statements := range all {
		switch {
		case statements[0] == "BEGIN":
			open, published = 0, false
		case strings.HasPrefix(statements[0], "BEGIN"): // a read
			continue
		}
		open++
		published = published || slices.ContainsFunc(statements, func(s string) bool { return strings.Contains(s, "INSERT INTO bus_log") })
		if published && slices.Contains(statements, "COMMIT") { // reads may follow it
			commits, trips = commits+1, trips+open
		}
	}
	return commits, trips
}

// promptToModel sends some prompts, and calls measured with each time until the model was
// called. addr is that of a PostgreSQL server.
func promptToModel(t testing.TB, addr string, counted *trips, rounds int, measured func(toModel time.Duration, sent [][]string)) {
	calls := make(chan struct{}, 1)
	called := make(chan time.Time, 1)
	model := llmtest.New(t, func(r llmtest.Request) llmtest.Script {
		called <- r.At // what the fake checks meanwhile does not count
		<-calls
		return llmtest.Say("Hello.")
	})
	r := startWith(t, fmt.Sprintf("database: {url: %q}\nmodel: openai/x\nproviders: {openai: {baseURL: %q, apiKey: key, api: chat}}\n", postgrestest.URLAt(addr, ""), model.URL+"/v1"),
		Seams{OnRoundTrip: counted.add})
	for range rounds {
		session := r.newSession()
		quiet := 0
		r.eventually("what the session and the request before it cause is over", func() bool {
			if quiet++; len(counted.take()) > 0 {
				quiet = 0
			}
			return quiet == 3
		})
		began := time.Now()
		if code, body := r.post("/sessions/"+session+"/prompt", `{"content":"hi","queue":"prompt"}`); code != http.StatusOK {
			t.Fatal(code, body)
		}
		at := <-called
		measured(at.Sub(began), counted.take())
		calls <- struct{}{}
		r.eventually("the request has ended", func() bool { return r.p.runner.Active() == 0 })
	}
}

func TestRoundTripsFromPromptToModel(t *testing.T) {
	effort.SkipPostgres(t)
	s := postgrestest.Start(t)
	least, leastOfCommits := 1<<30, 1<<30 // something else may happen at the same time
	promptToModel(t, s.Addr(), &trips{}, 5, func(_ time.Duration, sent [][]string) {
		least = min(least, len(sent))
		if commits, trips := publishing(sent); commits == 3 {
			leastOfCommits = min(leastOfCommits, trips)
		}
	})
	t.Logf("%d round trips, %d of them for the three commits", least, leastOfCommits)
	if leastOfCommits > mostTripsOfCommits {
		t.Errorf("%d round trips for the three commits of a prompt, want at most %d", leastOfCommits, mostTripsOfCommits)
	}
	if least > mostTrips {
		t.Errorf("%d round trips from the prompt to the model, want at most %d", least, mostTrips)
	}
}

// BenchmarkPromptToModel measures the time from a prompt to the model call, by the time that a
// round trip to PostgreSQL takes. The proxy's timer is late by a tenth of a millisecond, so its
// delay is adjusted until a round trip takes the time that is meant.
func BenchmarkPromptToModel(b *testing.B) {
	effort.SkipPostgres(b)
	for _, trip := range []time.Duration{0, 500 * time.Microsecond, 2 * time.Millisecond} {
		b.Run(trip.String(), func(b *testing.B) {
			s := postgrestest.Start(b)
			addr := s.Addr()
			if trip > 0 {
				proxy := faultproxy.Start(b, addr)
				addr = proxy.Addr
				for delay := trip; ; {
					proxy.Delay(delay)
					late := roundTrip(b, addr) - trip
					if late.Abs() < trip/20 {
						break
					}
					delay = max(0, delay-late)
				}
			}
			b.ReportMetric(float64(roundTrip(b, addr).Microseconds())/1000, "ms-trip")
			var times []time.Duration
			promptToModel(b, addr, &trips{}, b.N, func(d time.Duration, _ [][]string) { times = append(times, d) })
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)/2].Microseconds())/1000, "ms-p50")
			b.ReportMetric(float64(times[len(times)*99/100].Microseconds())/1000, "ms-p99")
		})
	}
}

// roundTrip returns the median time that the simplest statement takes.
func roundTrip(b *testing.B, addr string) time.Duration {
	b.Helper()
	c, err := pgconn.Connect(b.Context(), postgrestest.URLAt(addr, ""))
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close(b.Context())
	times := make([]time.Duration, 201)
	for i := range times {
		began := time.Now()
		if err := c.ExecParams(b.Context(), "SELECT 1", nil, nil, nil, nil).Read().Err; err != nil {
			b.Fatal(err)
		}
		times[i] = time.Since(began)
	}
	slices.Sort(times)
	return times[len(times)/2]
}
