// Package webuitest opens the page in a real Chromium and says in tests what a
// person does and sees there. A test without a browser is skipped with how to
// get one, and fails when CI is true. What the page throws fails the test.
//
// With LILAC_SHOTS set to a directory, [Tab.Picture] writes screenshots there.
package webuitest
