// Package clock publishes the events timer.fired.
//
// A timer has slots: the times of its schedule. The package guarantees:
//
//   - A slot fires at most once. The slot is the id of its event, which the inbox
//     remembers for a month, and the slot is saved in the transaction that publishes
//     the event. Neither a crash, nor a clock that is set back, nor a change to
//     summer time fires it again.
//   - If slots passed while the process was down or the machine slept, the newest of
//     them fires once, or none with skipMissed.
//   - A timer that is new, or has a new schedule, begins with its next slot.
//   - One operating system timer waits for the nearest slot. It waits at most a
//     minute, to notice a clock that was set and a machine that slept.
//
// [Decide] is the pure decider. It does not run through the kernel: the intake of
// package environment owns the transaction, because it limits how many events of a
// timer wait. [Service] is one goroutine; Set may be called concurrently. Only
// package app runs it. It implements the specification of environment events.
package clock
