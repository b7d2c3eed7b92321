package remote_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"lilac/internal/agent/remote"
)

// People give several nodes the same address, or that of a load balancer.
func TestAnAddressThatLeadsToAnotherNodeIsNoticed(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		there  bool // the trouble of the other node
		here   bool // the trouble of this node, which has the same address
	}{
		"the other node":                      {func(w http.ResponseWriter, _ *http.Request) { remote.WriteName(w, "there") }, false, true},
		"this node":                           {func(w http.ResponseWriter, _ *http.Request) { remote.WriteName(w, "here") }, true, false},
		"a third one":                         {func(w http.ResponseWriter, _ *http.Request) { remote.WriteName(w, strings.Repeat("x", 10_000)) }, true, true},
		"an older version, which has no name": {http.NotFound, false, false},
		"a node that is not ready": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "there", http.StatusServiceUnavailable)
		}, false, false},
		"a redirect": {func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == remote.NamePath {
				http.Redirect(w, r, "/elsewhere", http.StatusFound)
				return
			}
			t.Error("the key of the nodes follows a redirect")
		}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if !remote.HasKey(r, key) {
					t.Errorf("a request without the key: %v", r.URL)
				}
				c.answer(w, r)
			}))
			defer at.Close()
			n := nodes(t, at.URL, func(o *remote.Options) { o.OwnURL = at.URL })
			remote.Look(n, t.Context())
			for node, wrong := range map[string]bool{"there": c.there, "here": c.here} {
				if why := n.Trouble(node); strings.Contains(why, "another node answers") != wrong || why == "" == wrong {
					t.Errorf("the trouble of the node %q is %q", node, why)
				}
			}
		})
	}
}

func TestWatchEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := nodes(t, "http://127.0.0.1:1").Watch(ctx); err != nil {
		t.Error(err)
	}
}
