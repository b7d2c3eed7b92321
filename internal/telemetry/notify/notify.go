// Package notify tells the service manager how the program is, in the protocol
// of systemd (sd_notify): ready, reloading, stopping, and that it is alive. It
// does nothing when nobody listens.
package notify

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// sendLimit bounds a message: a service manager that does not read must not
// hold up the program.
const sendLimit = 2 * time.Second

// Manager is who started the program. The zero value is nobody.
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

// Watchdog is how often the manager wants to hear [Alive], with room to be
// late; zero means never.
func (m Manager) Watchdog() time.Duration { return m.watchdog / 3 }

// The states that can be told.
const (
	Ready    = "READY=1"
	Stopping = "STOPPING=1"
	Alive    = "WATCHDOG=1"
	// Reloading says that the configuration is read again; Ready ends it.
	Reloading = "RELOADING=1"
)

// Status is a line for people, shown by systemctl status.
func Status(text string) string { return "STATUS=" + strings.ReplaceAll(text, "\n", " ") }

// Tell sends states in one message.
func (m Manager) Tell(states ...string) error {
	if m.socket == "" {
		return nil
	}
	conn, err := net.DialTimeout("unixgram", m.socket, sendLimit) // a leading @ is the abstract name space
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
