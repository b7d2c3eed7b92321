// Package bench measures the real program over HTTP: how soon an accepted
// message reaches the model, how late tokens reach a reader, what a stream
// costs, and how quickly the program starts. docs/performance.md has the
// figures and says how to make them again:
//
//	go test -run '^$' -bench . -benchtime 1x ./bench
package bench
