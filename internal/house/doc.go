// Package house holds the rules of the house as tests: which package may
// import which, what nobody may import, how packages are named, and that the
// generated documents say what the code does. It has no code that runs.
package house
