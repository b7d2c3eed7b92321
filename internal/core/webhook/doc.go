// Package webhook verifies the signatures of webhooks and turns deliveries into
// environment events.
//
// It supports the signatures of GitHub, Standard Webhooks, Stripe, and Slack, the token of
// GitLab, and for any other sender a signature or a token in a header that the configuration
// names. Each is one row of a table. The package guarantees:
//
//   - [Hook.CheckHeaders] refuses a sender without a signature before its body is read.
//   - [Hook.Verify] checks the bytes of the body before anything parses them, and
//     compares in constant time. A header that occurs twice counts as missing, and a
//     refusal does not say what was wrong with the signature. The only thing that is done
//     to a body before that is decompression, within the limit of the body.
//   - The id of a delivery becomes the id of its event, so the inbox drops a delivery
//     that is repeated. Standard Webhooks, Stripe, and Slack sign the id and a time, which
//     may be off by five minutes. GitHub signs only the body, and GitLab nothing. A sender
//     without ids gets a new event for each delivery: a body that is the same may well be
//     news, such as an alert that still holds.
//   - The event keeps only a few headers, which contain no secrets.
//
// Everything here is pure and has no state, so there is no Decide: the time is an
// argument. Packages httpapi and cmd/lilac use it. It implements the specification
// of environment events.
package webhook
