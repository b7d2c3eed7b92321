package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"lilac/internal/testkit/e2e"
)

// No process has a wall clock of its own, so the nodes are built with a package time whose Now adds
// an error from the environment. Timers and durations use the monotonic clock and stay right.
const (
	rightNow = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	wrongNow = rightNow + "\tsec += skewAt(mono)\n"
	skewFile = `package time

import "syscall"

func skewOf(name string) int64 {
	value, _ := syscall.Getenv(name)
	seconds, _ := atoi(value)
	return int64(seconds)
}

var skewAtStart, skewLater, skewAfter = skewOf("LILAC_SKEW"), skewOf("LILAC_SKEW_LATER"), skewOf("LILAC_SKEW_AFTER")

func skewAt(mono int64) int64 {
	if skewAfter > 0 && mono-startNano > skewAfter*1e9 {
		return skewLater
	}
	return skewAtStart
}
`
)

// makeSkewable lets the nodes be built with clocks that can be wrong.
func makeSkewable(h *host) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		h.Fatalf("find Go: %v", err)
	}
	original := filepath.Join(strings.TrimSpace(string(root)), "src", "time", "time.go")
	text, err := os.ReadFile(original)
	if err != nil {
		h.Fatalf("read package time: %v", err)
	}
	if !strings.Contains(string(text), rightNow) {
		h.Fatalf("this version of Go has another time.Now; adapt rightNow to %s", original)
	}
	dir := h.TempDir()
	changed, added, overlay := filepath.Join(dir, "time.go"), filepath.Join(dir, "skew.go"), filepath.Join(dir, "overlay.json")
	replaced, err := json.Marshal(map[string]map[string]string{"Replace": {original: changed, filepath.Join(filepath.Dir(original), "skew.go"): added}})
	if err != nil {
		h.Fatalf("write the overlay: %v", err)
	}
	for path, content := range map[string]string{changed: strings.Replace(string(text), rightNow, wrongNow, 1), added: skewFile, overlay: string(replaced)} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			h.Fatalf("write the overlay: %v", err)
		}
	}
	if err := os.Setenv("GOFLAGS", strings.TrimSpace(os.Getenv("GOFLAGS")+" -overlay="+overlay)); err != nil {
		h.Fatalf("set GOFLAGS: %v", err)
	}
}

// spawn starts a node. With -skew, its clock is off by up to that much, and steps once.
func (c *cluster) spawn(s *e2e.Server) {
	if c.o.skew == 0 {
		s.Spawn()
		return
	}
	off := func() int { return c.clocks.IntN(2*int(c.o.skew.Seconds())+1) - int(c.o.skew.Seconds()) }
	s.Spawn(fmt.Sprint("LILAC_SKEW=", off()), fmt.Sprint("LILAC_SKEW_LATER=", off()), fmt.Sprint("LILAC_SKEW_AFTER=", 1+c.clocks.IntN(20)))
}
