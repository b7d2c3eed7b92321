// Package conventions tests the rules of this repository: which package may import which, banned
// imports, package names, and that the generated documents match the code. It contains only tests.
package conventions
