// Package notify reports the program's state to the service manager with systemd's
// protocol (sd_notify): ready, reloading, stopping, and alive. Without a service
// manager, it does nothing.
package notify

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// sendLimit bounds the time to send a message, because a service manager that does not
// read must not delay the program.
const sendLimit = 2 * time.Second

// Manager is the service manager that started the program. The zero value ignores
// messages.
type Manager struct {
	socket   string
	watchdog time.Duration
}

// FromEnvironment reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID; pid is
// the program's own.
func FromEnvironment(getenv func(string) string, pid int) Manager {
	m := Manager{socket: getenv("NOTIFY_SOCKET")}
	if m.socket == "" || !strings.HasPrefix(m.socket, "/") && !strings.HasPrefix(m.socket, "@") {
		return Manager{}
	}
	micros, err := strconv.ParseInt(getenv("WATCHDOG_USEC"), 10, 64)
	if whose := getenv("WATCHDOG_PID"); err == nil && micros > 0 && (whose == "" || whose == strconv.Itoa(pid)) {
		m.watchdog = time.Duration(micros) * time.Microsecond
	}
	return m
}

// Watchdog returns how often to send [Alive]: a third of the manager's limit, so that
// one message may be late. Zero means never.
func (m Manager) Watchdog() time.Duration { return m.watchdog / 3 }

// The states that can be sent.
const (
	Ready    = "READY=1"
	Stopping = "STOPPING=1"
	Alive    = "WATCHDOG=1"
	// Reloading reports that the configuration is being read again; Ready ends it.
	Reloading = "RELOADING=1"
)

// Status returns the message for a line that systemctl status shows.
func Status(text string) string { return "STATUS=" + strings.ReplaceAll(text, "\n", " ") }

// Tell sends states in one message.
func (m Manager) Tell(states ...string) error {
	if m.socket == "" {
		return nil
	}
	conn, err := net.DialTimeout("unixgram", m.socket, sendLimit) // a leading @ denotes the abstract namespace
	if err != nil {
		return fmt.Errorf("reach the service manager: %w", err)
	}
	defer conn.Close()
	if err := conn.SetWriteDeadline(time.Now().Add(sendLimit)); err != nil {
		return fmt.Errorf("tell the service manager: %w", err)
	}
	if _, err := conn.Write([]byte(strings.Join(states, "\n"))); err != nil {
		return fmt.Errorf("tell the service manager: %w", err)
	}
	return nil
}
