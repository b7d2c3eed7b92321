package health

import (
	"os"
	"sync/atomic"
	"time"
)

// Paths is a list of files and directories that must exist.
type Paths struct {
	Names []string

	looking atomic.Bool
	missing atomic.Int64
}

// Missing returns how many of them do not exist. If the file system hangs, it returns the
// previous count after a second; one goroutine stays blocked until the file system
// responds.
func (p *Paths) Missing() int {
	if p.looking.CompareAndSwap(false, true) {
		seen := make(chan struct{})
		go func() {
			var missing int64
			for _, name := range p.Names {
				if _, err := os.Stat(name); err != nil {
					missing++
				}
			}
			p.missing.Store(missing)
			p.looking.Store(false)
			close(seen)
		}()
		late := time.NewTimer(askPatience)
		defer late.Stop()
		select {
		case <-seen:
		case <-late.C:
		}
	}
	return int(p.missing.Load())
}
