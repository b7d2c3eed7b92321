// Package telemetry is the layer that reports what the process does: logs,
// metrics, traces, health, and notifications to the service manager.
//
// Packages of this layer observe, and decide nothing. They import only the
// foundation layer. The wrappers that connect them to models, tools, and the bus
// live in app/observe, because only app knows both sides.
package telemetry
