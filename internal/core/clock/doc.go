// Package clock is the source of the events timer.fired.
//
// A timer has slots, the moments of its schedule. What it promises:
//
//   - A slot fires at most once: it is the id of its event, which the inbox
//     knows for a month, and it is written in the transaction that publishes the
//     event. Neither a crash nor a clock that is set back or changed for the
//     summer fires it again.
//   - Of the slots that passed while nobody was there, because the program was
//     down or the machine slept, the newest fires once, or none if the timer says
//     so.
//   - A timer that is new, or has a new schedule, begins with its next slot.
//   - One timer of the system waits for the nearest slot of all. It waits no
//     longer than a minute, to see a clock that was set or a machine that slept.
//
// [Decide] is pure; the [Service] loads, decides and writes. Only the
// composition root runs it; it follows the specification of environment events.
package clock
