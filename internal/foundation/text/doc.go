// Package text shortens texts without splitting a character, and removes what a
// terminal would interpret instead of print.
//
// Its functions are pure and safe for concurrent use. Any package may call them.
package text
