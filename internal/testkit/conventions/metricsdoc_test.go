package conventions_test

import (
	"fmt"
	"strings"
	"testing"

	"lilac/internal/app/observe"
	"lilac/internal/serve/httpapi"
	"lilac/internal/telemetry/metrics"
)

// metricsDoc describes what every package declares, as app joins it.
func metricsDoc(*testing.T) string {
	var r metrics.Registry
	observe.New(&r, nil)
	observe.Describe(&r, observe.Program{})
	httpapi.New(httpapi.Options{Metrics: &r, Sources: &httpapi.Sources{}})
	var b strings.Builder
	b.WriteString("# Metrics\n\n" + generatedNote +
		"`GET /metrics` writes them in Prometheus' text format. The route needs a token: the operator's, or better one of\n" +
		"its own that opens nothing else, `LILAC_METRICS_TOKEN`. A scrape configuration:\n\n" +
		"```yaml\nscrape_configs:\n  - job_name: lilac\n    authorization: {credentials_file: /etc/prometheus/lilac.token}\n" +
		"    static_configs: [{targets: [\"127.0.0.1:7420\"]}]\n```\n\n" +
		"A scraper that uses an IP address needs no further setting; add any other host name to `allowedHosts`. Labels come from small sets; a\n" +
		"metric keeps at most 200 combinations and counts the rest under `other`.\n\n" +
		"| metric | type | labels | what it is |\n| --- | --- | --- | --- |\n")
	for _, d := range r.Describe() {
		labels := ""
		for i, l := range d.Labels {
			if i > 0 {
				labels += ", "
			}
			labels += "`" + l + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", d.Name, d.Kind, labels, d.Help)
	}
	b.WriteString("\n## Worth an alarm\n\n" +
		"| when | what it means |\n| --- | --- |\n" +
		"| `min(lilac_part_ok) == 0` for a minute | a part does not work; `/readyz` says why |\n" +
		"| `lilac_bus_dead_letters > 0` | an event could not be handled: `lilac dlq list` |\n" +
		"| `lilac_bus_group_oldest_seconds > 120` | a consumer does not get on |\n" +
		"| `lilac_bus_unsent` grows for a minute | Redis is away; beyond 500,000 nothing more is accepted |\n" +
		"| `rate(lilac_request_duration_seconds_count{state=\"failed\"}[15m]) > 0` | people get no answer |\n" +
		"| `increase(lilac_model_cost_dollars_total[1h])` above what you expect | money; see `limits.day.money` |\n")
	return b.String()
}
