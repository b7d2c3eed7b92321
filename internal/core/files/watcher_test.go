package files_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/fsnotify/fsnotify"

	"lilac/internal/core/files"
	"lilac/internal/store"
)

func TestWatcherErrorsNameTheLimit(t *testing.T) {
	limit := os.NewSyscallError("inotify_init1", syscall.EMFILE)
	for name, c := range map[string]struct {
		err  error
		free bool
		want string
	}{
		"instances of the user": {limit, true, "sysctl fs.inotify.max_user_instances"},
		"files of the process":  {limit, false, "ulimit -n"},
		"files of the machine":  {syscall.ENFILE, true, "sysctl fs.file-max"},
		"another error":         {syscall.ENOSYS, true, "open watcher"},
	} {
		if err := files.Explain(c.err, c.free); !strings.Contains(err.Error(), c.want) || !errors.Is(err, errors.Unwrap(c.err)) && !errors.Is(err, c.err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The trouble of a source, which "lilac sources" shows, has the reason.
func TestSourceSaysThatInotifyInstancesAreExhausted(t *testing.T) {
	h := &heard{t: t, db: open(t), ready: make(chan struct{})}
	s := files.New(files.Options{DB: h.db, Known: store.WatchedFiles{}, Intake: h})
	s.OpenWith(func() (*fsnotify.Watcher, error) { return nil, files.Explain(syscall.EMFILE, true) })
	s.Set([]files.Source{{Name: "inbox"}})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	<-h.ready
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, trouble := h.state(); !strings.Contains(trouble, "raise the sysctl fs.inotify.max_user_instances") {
		t.Errorf("the trouble is %q", trouble)
	}
}
