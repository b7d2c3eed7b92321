package conventions_test

import (
	"fmt"
	"strings"
	"testing"

	"lilac/internal/app/observe"
	"lilac/internal/serve/httpapi"
	"lilac/internal/telemetry/metrics"
)

// metricsDoc documents the metrics that all packages declare, as app combines them.
func metricsDoc(*testing.T) string {
	var r metrics.Registry
	observe.New(&r, nil)
	observe.Describe(&r, observe.Program{})
	httpapi.New(httpapi.Options{Metrics: &r, Sources: &httpapi.Sources{}})
	var b strings.Builder
	b.WriteString("# Metrics\n\n" + generatedNote +
		"`GET /metrics` returns these metrics in Prometheus' text format. The route requires a token. Use `LILAC_METRICS_TOKEN`, which\n" +
		"grants nothing else, rather than the operator's token. Example of a scrape configuration:\n\n" +
		"```yaml\nscrape_configs:\n  - job_name: lilac\n    authorization: {credentials_file: /etc/prometheus/lilac.token}\n" +
		"    static_configs: [{targets: [\"127.0.0.1:7420\"]}]\n```\n\n" +
		"If the scraper uses a host name (not loopback or an IP address), add it to `allowedHosts`. Each metric keeps at most 200 combinations of\n" +
		"label values and counts the others under `other`.\n\n" +
		"| metric | type | labels | description |\n| --- | --- | --- | --- |\n")
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
	b.WriteString("\n## Recommended alerts\n\n" +
		"| condition | meaning |\n| --- | --- |\n" +
		"| `min(lilac_part_ok) == 0` for a minute | a component failed; `/readyz` says why |\n" +
		"| `lilac_bus_dead_letters > 0` | an event could not be handled; run `lilac dlq list` |\n" +
		"| `lilac_bus_group_oldest_seconds > 120` | a consumer group is stuck |\n" +
		"| `lilac_redis_mirror_lag_events` grows for a minute | Redis is unavailable or slow; Lilac works, but other programs see nothing new |\n" +
		"| `rate(lilac_request_duration_seconds_count{state=\"failed\"}[15m]) > 0` | requests fail |\n" +
		"| `sum by (model) (rate(lilac_model_cached_input_ratio_sum[1h])) / sum by (model) (rate(lilac_model_cached_input_ratio_count[1h])) < 0.5` | the provider reads little from its cache, so calls cost more; see [models](models.md) |\n" +
		"| `increase(lilac_model_cost_dollars_total[1h])` exceeds your budget | unexpected cost; see `limits.day.money` |\n")
	return b.String()
}
