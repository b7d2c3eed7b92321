package notify_test

import (
	"net"
	"path/filepath"
	"testing"
	"time"

	"lilac/internal/telemetry/notify"
)

func env(values map[string]string) func(string) string {
	return func(name string) string { return values[name] }
}

func TestManagerHearsWhatIsTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	m := notify.FromEnvironment(env(map[string]string{"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "7"}), 7)
	if m.Watchdog() != 10*time.Second {
		t.Errorf("the watchdog is told every %s", m.Watchdog())
	}
	for _, tt := range []struct {
		states []string
		want   string
	}{
		{[]string{notify.Ready, notify.Status("http://x\ny")}, "READY=1\nSTATUS=http://x y"},
		{[]string{notify.Reloading}, "RELOADING=1"},
		{[]string{notify.Alive}, "WATCHDOG=1"},
		{[]string{notify.Stopping}, "STOPPING=1"},
	} {
		if err := m.Tell(tt.states...); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 1024)
		if err := l.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		n, err := l.Read(buf)
		if err != nil || string(buf[:n]) != tt.want {
			t.Errorf("heard %q, %v; want %q", buf[:n], err, tt.want)
		}
	}
}

func TestNobodyListens(t *testing.T) {
	for _, e := range []map[string]string{nil, {"NOTIFY_SOCKET": "relative", "WATCHDOG_USEC": "1"}, {"WATCHDOG_USEC": "1000000"}} {
		m := notify.FromEnvironment(env(e), 1)
		if err := m.Tell(notify.Ready); err != nil || m.Watchdog() != 0 {
			t.Errorf("%v: %v, %s", e, err, m.Watchdog())
		}
	}
	gone := notify.FromEnvironment(env(map[string]string{"NOTIFY_SOCKET": filepath.Join(t.TempDir(), "gone"), "WATCHDOG_USEC": "1", "WATCHDOG_PID": "2"}), 1)
	if err := gone.Tell(notify.Ready); err == nil || gone.Watchdog() != 0 {
		t.Errorf("a manager that is gone: %v, %s", err, gone.Watchdog())
	}
}
