// Package health reports whether the program works, from work that was observed.
// A [Monitor] runs a probe for each component at intervals; the probe makes the
// component do something. A probe that does not return counts as failed, and so
// does a result that is too old.
//
// A component at rest is probed rarely, until there is work or somebody reads the
// report. Reading costs at most one probe per component and [DefaultEvery],
// however many callers read, so the report may be public.
//
// A Monitor is safe for concurrent use. Its probes run in goroutines that
// [Monitor.Run] waits for.
package health
