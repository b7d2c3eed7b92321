// Package testkit holds everything that only tests use: fake servers, the
// conformance suites that engines pass, harnesses that start the real program,
// and the tests of this repository's conventions.
//
// It may import every layer. No package of the product imports it; the import
// test enforces that.
package testkit
