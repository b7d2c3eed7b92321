package killpoints

import (
	"math/rand/v2"
	"net/http"
	"os"
	"time"
)

// delaying reports whether the program pauses at random before reads, around commits, and
// before requests, as it does on a busy machine. Code that reads one thing after another then
// meets changes between the two.
func delaying() bool { return os.Getenv("LILAC_DELAYS") != "" }

// pause sleeps: mostly not at all, sometimes a little, and rarely for long.
func pause() {
	switch n := rand.IntN(100); {
	case n < 60:
	case n < 95:
		time.Sleep(time.Duration(rand.IntN(8_000)) * time.Microsecond)
	default:
		time.Sleep(time.Duration(rand.IntN(150)) * time.Millisecond)
	}
}

// onRead returns the function that pauses before a read, or nil.
func onRead() func() {
	if !delaying() {
		return nil
	}
	return pause
}

// delayed pauses before each request.
func delayed(h http.Handler) http.Handler {
	if !delaying() {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pause()
		h.ServeHTTP(w, r)
	})
}
