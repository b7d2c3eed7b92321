// Package webhook tells a webhook that its sender signed from any other
// request, and makes an environment event of it.
//
// Two forms of signatures are known: GitHub's, and that of the Standard
// Webhooks. What it promises:
//
//   - Verify looks at the bytes of the body as they came, before anything reads
//     them, and compares in constant time. A header that occurs twice is as good
//     as none, and a refusal does not say what was wrong with the signature.
//   - A delivery has an id, which is the id of the event that it becomes: the
//     inbox drops it when it comes again. The Standard form signs the id and a
//     time, which may be five minutes off. GitHub signs the body alone.
//   - Of the headers the event keeps a few that hold no secret.
//
// Everything here is pure: the clock comes in as an argument. httpapi and the
// command line use it; it follows the specification of environment events.
package webhook
