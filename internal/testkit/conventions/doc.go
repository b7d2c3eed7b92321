// Package conventions holds the rules of this repository as tests: which package may
// import which, imports that are banned, how packages are named, and that the
// generated documents say what the code does. It has no code that runs.
package conventions
