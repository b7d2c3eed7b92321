// Package bench measures the real program over HTTP: the delay until an accepted message reaches
// the model, the delay until tokens reach a reader, the cost of a stream, and the startup time.
// docs/performance.md has the results and explains how to reproduce them:
//
//	go test -run '^$' -bench . -benchtime 1x ./bench
package bench
