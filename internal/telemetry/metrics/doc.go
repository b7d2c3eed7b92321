// Package metrics counts what the program does, with Prometheus' client library,
// and writes it in the text exposition format (version 0.0.4).
//
// A metric is declared once, in a [Registry], with its help and its labels. It
// adds two rules to the library:
//
//   - Label values are bounded. A metric keeps at most maxSeries combinations and
//     counts later ones under "other", because values such as model names come
//     from configuration and from providers.
//   - Every declaration is listed by [Registry.Describe], from which
//     docs/metrics.md is generated.
//
// All types are safe for concurrent use.
package metrics
