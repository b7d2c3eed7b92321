// Package demo is a language model without a model: a few rules that answer
// offline, the same every time, so that a new user sees Lilac at work before
// having a key, and so that tests and benchmarks have a model that costs
// nothing. It says what it is. It streams word by word, calls the real tools
// when it is asked to run, list, read, write or search something, tells what
// they answered, what background work came to, and says so when a message
// reached it while it worked.
package demo
