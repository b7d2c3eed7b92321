// Package webuitest opens the page in a real Chromium, and describes in tests what a
// person does and sees. Without a browser a test is skipped with an instruction to
// install it, and fails if CI is true. An uncaught JavaScript error fails the test.
// [OpenFirefox] opens the page in another engine.
//
// If LILAC_SHOTS is set to a directory, [Tab.Picture] writes screenshots there.
package webuitest
