package mcpclient

import (
	"bytes"
	"io"
	"net/http"
	"sync/atomic"
)

// maxRefusal bounds the part of a refusal that is read, in bytes.
const maxRefusal = 4 << 10

// forgotten makes the answer of a server that has forgotten the session the same for all servers. The
// protocol demands 404, but the example of the SDK for TypeScript, which many servers have copied, says
// 400: No valid session ID provided. It also tells the call itself: the same answer to another request,
// such as one that continues the stream of the call, ends the session, too, but says nothing about the call.
type forgotten struct{ http.RoundTripper }

// refusedKey is the key of an *atomic.Bool in the context of a call. It becomes true when the server has
// refused the call itself for its session, and so has not handled it.
type refusedKey struct{}

// RoundTrip implements [http.RoundTripper].
func (f forgotten) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := f.RoundTripper.RoundTrip(r)
	if err != nil || r.Header.Get("Mcp-Session-Id") == "" {
		return answer, err
	}
	if answer.StatusCode == http.StatusBadRequest {
		why, _ := io.ReadAll(io.LimitReader(answer.Body, maxRefusal)) // a part says enough
		_ = answer.Body.Close()
		answer.Body = io.NopCloser(bytes.NewReader(why))
		if why = bytes.ToLower(why); bytes.Contains(why, []byte("session")) || bytes.Contains(why, []byte("not initialized")) {
			answer.StatusCode = http.StatusNotFound
		}
	}
	if refused, ok := r.Context().Value(refusedKey{}).(*atomic.Bool); ok && r.Method == http.MethodPost && answer.StatusCode == http.StatusNotFound {
		refused.Store(true)
	}
	return answer, nil
}
