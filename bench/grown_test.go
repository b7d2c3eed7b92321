package bench

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"lilac/internal/foundation/event"
	"lilac/internal/testkit/llmtest"
)

// grown fills a database like a busy year: with conversations, outputs that were removed in the
// last month, the messages of one long conversation, and runs of rules.
const grown = `
INSERT INTO sessions (id, client, title, created_at, updated_at)
	WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)
	SELECT printf('old-%%06d', i), 'web', printf('Conversation %%d', i), i, i FROM n;
INSERT INTO bus_topics (name, output, last_append, expired)
	WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 90000)
	SELECT printf('out.req.%%06d', i), 1, unixepoch('now', '-3 days') * 1000 + i, 1 FROM n;
INSERT INTO session_inbox
	WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50000)
	SELECT session_id, printf('old-%%06d', i), printf('old-%%06d', i), queue, state, event_id, created_at, json, checksum FROM n, (SELECT * FROM session_inbox WHERE session_id = '%s' LIMIT 1);
INSERT INTO rule_runs (rule, event_id, type, session_id, message_id, request_id, outcome, depth, at)
	WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)
	SELECT 'rule', printf('old-%%06d', i), 'webhook.old', printf('old-%%06d', i), printf('old-%%06d', i), printf('old-%%06d', i), 'agent', 1, unixepoch() * 1000 FROM n;
`

// BenchmarkGrown measures reads, prompts, and an idle minute of a new program, and of one after a
// busy year.
func BenchmarkGrown(b *testing.B) {
	for b.Loop() {
		called := make(chan time.Time, 1)
		model := llmtest.New(b, func(r llmtest.Request) llmtest.Script {
			called <- r.At
			return llmtest.Say("Yes.")
		})
		s := start(b, model)
		session := s.NewSession()
		first := s.Prompt(session, "are you there?", event.Prompt)
		<-called
		s.WaitEnded(first.RequestID, 10*time.Second)
		measure := func(when string) {
			for name, path := range map[string]string{"conversation": "/sessions/" + session, "request": "/requests/" + first.RequestID, "groups": "/bus/groups"} {
				var took []time.Duration
				for range 50 {
					begin := time.Now()
					if code := s.Request("GET", path, nil, nil); code != http.StatusOK {
						b.Fatalf("GET %s answered %d", path, code)
					}
					took = append(took, time.Since(begin))
				}
				micros(b, quantile(took, 0.5), "µs-"+name+"-"+when)
			}
			var took []time.Duration
			fresh := s.NewSession()
			for range 50 {
				begin := time.Now()
				a := s.Prompt(fresh, "are you there?", event.Prompt)
				took = append(took, (<-called).Sub(begin))
				s.WaitEnded(a.RequestID, 10*time.Second)
			}
			micros(b, quantile(took, 0.5), "µs-prompt-"+when)
			time.Sleep(settled)
			cpu := cpuTime(b, s.PID())
			time.Sleep(time.Minute)
			b.ReportMetric(float64((cpuTime(b, s.PID()) - cpu).Milliseconds()), "ms-cpu/minute-"+when)
		}
		measure("new")
		s.Terminate(10 * time.Second)
		s.Exec(fmt.Sprintf(grown, session))
		s.Restart()
		measure("grown")
	}
}
