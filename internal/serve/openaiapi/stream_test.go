package openaiapi

import (
	"net/http/httptest"
	"testing"
)

func TestProxiesAreAskedToPassStreamsOnAsTheyAre(t *testing.T) {
	w := httptest.NewRecorder()
	newStream(w).begin()
	if got := w.Header(); got.Get("Cache-Control") != "no-store, no-transform" || got.Get("X-Accel-Buffering") != "no" {
		t.Errorf("the headers are %v", got)
	}
}
