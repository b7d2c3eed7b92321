// Package pairing lets the operator decide which strangers may send private messages.
//
// A stranger's message is not read. The stranger gets a code in return, which the operator
// approves or denies ("lilac pairing"). An approved person may send private messages, like
// one whom the configuration lists; what the agent may do for them follows from the
// configuration as for everybody.
//
// Guarantees:
//
//   - A stranger gets at most one answer an hour, whatever they send, and none after a
//     denial. At most [MaxPending] strangers wait; later ones get no answer.
//   - The answer survives restarts. A nonce keeps it from being sent twice.
//   - A code expires after [CodeTTL]; the next message gets a new one.
//
// Package app builds one [Service] per platform and calls [Service.Run] once. The methods
// may be called from any goroutine; every change is one transaction. [Decide] is pure.
package pairing
