// Package effort says how much work the tests of a run do:
//
//   - go test -short: the tests of single packages, in their smallest form. Those
//     that take half a second or more, and tests of the whole program and of the page do not run.
//   - go test: what people use, once, on the default engine and browser, and kills at a few points.
//   - CI=true: also details and unusual moments of the page, attacks, kills at every point, the
//     controls of the tests of the page and of the whole program, and every engine and browser.
//   - LILAC_LONG=1: also the figures that the proof table states, for hours.
package effort

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"
)

// Full reports whether every engine is tested, as in CI.
func Full() bool { return os.Getenv("CI") != "" || Long() }

// Long reports whether the long forms of the tests run.
func Long() bool { return os.Getenv("LILAC_LONG") != "" }

// SkipLong skips the long form of a test, or one on something that is not the default, unless
// everything is tested. The reason begins with what, the name of the skipped test's subject.
func SkipLong(t testing.TB, what string) {
	t.Helper()
	if !Full() {
		t.Skip(what + " is tested with CI=true")
	}
}

// SkipDetail skips a test of a detail, of an attack, or of a kill at every point, or a control, unless
// everything is tested. It is for tests that take seconds: most of them need a browser or the whole
// program.
func SkipDetail(t testing.TB) {
	t.Helper()
	SkipLong(t, "This detail")
}

// Within returns the time limit for an assertion on a duration: the promised one in the long form,
// which has the machine for itself, and otherwise one that only a program that hangs exceeds, because
// many tests share the processors and the disk.
func Within(promised time.Duration) time.Duration {
	if Long() {
		return promised
	}
	return 20 * promised
}

// SkipSlow skips a test of about half a second or more if the run is short, unless everything is tested: CI
// combines -short with the race detector.
func SkipSlow(t testing.TB) {
	t.Helper()
	if testing.Short() && !Full() {
		t.Skip("-short leaves out tests that take half a second or more")
	}
}

// Sample returns all cases if everything is tested, and otherwise the first of each n.
func Sample[T any](cases []T, n int) []T {
	if Full() {
		return cases
	}
	var few []T
	for i := 0; i < len(cases); i += n {
		few = append(few, cases[i])
	}
	return few
}

// SkipPostgres skips a test on PostgreSQL, which is not the default engine, unless every
// engine is tested or LILAC_TEST_DB selects engines.
func SkipPostgres(t testing.TB) {
	t.Helper()
	if !Full() && os.Getenv("LILAC_TEST_DB") == "" {
		t.Skip("PostgreSQL is tested with CI=true, or with LILAC_TEST_DB=both")
	}
}

// SkipWholeProgram ends the test binary of a package that tests the whole program
// if the run is short. TestMain calls it first.
func SkipWholeProgram() {
	flag.Parse() // testing.Short needs it before M.Run
	if testing.Short() {
		fmt.Println("skipped: -short leaves out the tests of the whole program")
		os.Exit(0)
	}
}

// SideBySide lets n tests of a package run in parallel, whatever the number of CPUs,
// because they wait most of the time. A flag on the command line overrides it. TestMain
// calls it first.
func SideBySide(n int) {
	if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
		panic(err) // the flag always exists in a test
	}
}
