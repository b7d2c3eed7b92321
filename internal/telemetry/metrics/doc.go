// Package metrics counts what the program does and writes it in the text
// format that Prometheus reads (version 0.0.4). It is small on purpose: see
// docs/decisions/0004-own-metrics-and-spans.md for why it is not the client library.
//
// A metric is declared once, in a [Registry], with its help and its labels, and
// is always written, so that a dashboard sees a zero instead of a hole. The
// values of labels are bounded: a metric keeps at most maxSeries combinations,
// what comes later is counted under "other".
package metrics
