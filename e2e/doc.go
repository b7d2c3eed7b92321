// Package e2e holds the tests of the whole program: they start the real binary with the harness of
// internal/testkit/e2e, use it as people and other programs do, kill it, and check what arrives. A
// file tests one part of the program, for example discord_crash_test.go.
package e2e
