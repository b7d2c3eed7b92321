// Package highlight splits code into the kinds of words that readers look for. The page and the
// terminal use it, so both show code alike.
//
// It knows comments, strings, numbers, and the keywords of common languages, and no grammar:
// docs/decisions/0012-the-terminal.md says why. All functions are pure.
package highlight
