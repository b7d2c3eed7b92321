// Package demo answers offline with a few fixed rules instead of a language model. New
// users can try Lilac without an API key, and tests and benchmarks get a model that
// costs nothing.
//
// Its answers say that it is a demo. It streams word by word, calls the real tools when
// it is asked to run, list, read, write, or search something, and reports their output,
// the result of background tasks, and messages that arrived meanwhile. Equal requests
// get equal answers. A [Model] is safe for concurrent use.
package demo
