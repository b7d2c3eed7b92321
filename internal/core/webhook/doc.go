// Package webhook verifies the signatures of webhooks and turns deliveries into
// environment events.
//
// It supports two forms of signatures: GitHub's, and the Standard Webhooks form. The
// package guarantees:
//
//   - [Hook.Verify] checks the bytes of the body as they arrived, before anything
//     parses them, and compares in constant time. A header that occurs twice counts
//     as missing, and a refusal does not say what was wrong with the signature.
//   - The id of a delivery becomes the id of its event, so the inbox drops a delivery
//     that is repeated. The Standard form signs the id and a time, which may be off
//     by five minutes. GitHub signs only the body.
//   - The event keeps only a few headers, which contain no secrets.
//
// Everything here is pure and has no state, so there is no Decide: the time is an
// argument. Packages httpapi and cmd/lilac use it. It implements the specification
// of environment events.
package webhook
