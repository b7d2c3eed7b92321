package mcpclient

import (
	"bytes"
	"io"
	"net/http"
)

// maxRefusal bounds the part of a refusal that is read, in bytes.
const maxRefusal = 4 << 10

// forgotten makes the answer of a server that has forgotten the session the same for all servers. The
// protocol demands 404, but the example of the SDK for TypeScript, which many servers have copied, says
// 400: No valid session ID provided.
type forgotten struct{ http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (f forgotten) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := f.RoundTripper.RoundTrip(r)
	if err != nil || answer.StatusCode != http.StatusBadRequest || r.Header.Get("Mcp-Session-Id") == "" {
		return answer, err
	}
	why, _ := io.ReadAll(io.LimitReader(answer.Body, maxRefusal)) // a part says enough
	_ = answer.Body.Close()
	answer.Body = io.NopCloser(bytes.NewReader(why))
	if why = bytes.ToLower(why); bytes.Contains(why, []byte("session")) || bytes.Contains(why, []byte("not initialized")) {
		answer.StatusCode = http.StatusNotFound
	}
	return answer, nil
}
