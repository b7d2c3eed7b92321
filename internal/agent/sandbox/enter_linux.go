package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// orders is the configuration that the first process of a sandbox receives, as JSON.
type orders struct {
	Layers []layer
	// Stage is a directory of the machine over which the new root is mounted.
	Stage    string
	Hostname string
	Argv     []string
	Env      []string
	Dir      string
	Limits   Limits
	// Forward reports that the socket of a proxy is visible, so connections are forwarded
	// to it.
	Forward bool
}

// deadly lists the signals that end a Go process unless it handles them (os/signal).
var deadly = []os.Signal{
	unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGILL, unix.SIGTRAP, unix.SIGABRT, unix.SIGBUS, unix.SIGFPE,
	unix.SIGSEGV, unix.SIGTERM, unix.SIGSTKFLT, unix.SIGSYS,
}

// maxOrders limits the size of the orders in bytes. An environment and an argument list
// are at most 2 MiB each.
const maxOrders = 16 << 20

// news is one status message of the sandbox, in the format of bubblewrap's
// --json-status-fd.
type news struct {
	Started  bool   `json:"started,omitempty"`
	ExitCode *int   `json:"exit-code,omitempty"`
	Error    string `json:"error,omitempty"`
}

// exitNotStarted is the exit code of a shell for a command that it cannot run.
const exitNotStarted = 127

func enter() {
	first, forwards := len(os.Args) == 2 && os.Args[1] == argFirst, len(os.Args) > 2 && os.Args[1] == argForward
	if !first && !forwards {
		keepDescriptors()
		return
	}
	// Each thread needs memory for its stack, and Go starts more threads on more CPUs. Go
	// aborts if the memory limit leaves none for a thread.
	runtime.GOMAXPROCS(1)
	if forwards {
		code, err := runForwarded(os.Args[2:])
		if err != nil {
			fmt.Fprintln(os.Stderr, "lilac:", err)
			code = exitNotStarted
		}
		unix.Exit(code)
	}
	// The kernel drops signals to the first process of a PID namespace unless the process
	// handles them, and Go installs handlers for these. Notify makes them harmless. It runs
	// before LockOSThread because each signal needs two thread switches, and more from a
	// locked thread.
	signal.Notify(make(chan os.Signal, 1), deadly...)
	// The restrictions below apply to one thread only, so the same thread must start the
	// command.
	runtime.LockOSThread()
	tell := json.NewEncoder(os.NewFile(statusFD, "status"))
	unix.CloseOnExec(statusFD)
	code, err := beFirst(tell)
	if err != nil {
		_ = tell.Encode(news{Error: err.Error()})
		unix.Exit(1)
	}
	_ = tell.Encode(news{ExitCode: &code})
	unix.Exit(0)
}

// keepDescriptors marks the file descriptors that this program inherited from a shell or
// a service manager as close-on-exec. A command could use an inherited directory to escape
// from its mounts. If /proc cannot be read, no descriptor is marked, but then no sandbox
// works either.
func keepDescriptors() {
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, entry := range entries {
		if fd, err := strconv.Atoi(entry.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
}

// beFirst builds the sandbox, runs the command in it, and reaps orphaned processes.
func beFirst(tell *json.Encoder) (exitCode int, err error) {
	var o orders
	file := os.NewFile(argsFD, "orders")
	if err := json.NewDecoder(io.LimitReader(file, maxOrders)).Decode(&o); err != nil {
		return 0, fmt.Errorf("read orders: %w", err)
	}
	if err := file.Close(); err != nil {
		return 0, fmt.Errorf("close orders: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return 0, fmt.Errorf("tie the sandbox to its parent: %w", err)
	}
	expendable(0) // must come before /proc becomes read-only
	t := tree{layers: o.Layers}
	if err := t.build(o.Stage); err != nil {
		return 0, err
	}
	// The host name does not protect anything, and containers do not allow setting it.
	if err := unix.Sethostname([]byte(o.Hostname)); err != nil && !errors.Is(err, unix.EPERM) {
		return 0, fmt.Errorf("set host name: %w", err)
	}
	if err := loopbackUp(); err != nil {
		return 0, err
	}
	if o.Forward {
		if err := forward(); err != nil {
			return 0, err
		}
	}
	setKernel("kernel/pid_max", reservedPids+o.Limits.kernelProcesses())
	setKernel("user/max_user_namespaces", 0)
	if err := t.seal(); err != nil {
		return 0, err
	}
	path, err := lookPath(o.Argv[0], o.Env)
	if err != nil {
		return 0, err
	}
	if err := lock(o); err != nil {
		return 0, err
	}
	if err := tell.Encode(news{Started: true}); err != nil {
		return 0, fmt.Errorf("tell that the sandbox stands: %w", err)
	}
	pid, err := syscall.ForkExec(path, o.Argv, &syscall.ProcAttr{
		Dir: o.Dir, Env: o.Env, Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return 0, fmt.Errorf("start %s: %w", path, err)
	}
	return reap(pid)
}

// reservedPids is the number of low PIDs that the kernel does not use again after its PID
// counter wraps (RESERVED_PIDS in kernel/pid.c).
const reservedPids = 300

// lock removes all rights from this thread that the command must not have. The other
// threads of this process run only the Go runtime; PR_SET_DUMPABLE keeps the command from
// accessing them through ptrace or /proc.
func lock(o orders) error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("close this process to others: %w", err)
	}
	limits, err := o.Limits.besideUs()
	if err != nil {
		return err
	}
	if err := setLimits(0, limits); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("give up new privileges: %w", err)
	}
	if err := applyLandlock(o.Layers); err != nil {
		return err
	}
	if err := dropCapabilities(); err != nil {
		return err
	}
	filter, err := seccompFilter()
	if err != nil {
		return err
	}
	return applyFilter(filter)
}

// securebits denies capabilities to user 0 (capabilities(7)): NOROOT, NO_SETUID_FIXUP and
// NO_CAP_AMBIENT_RAISE are set, KEEP_CAPS is clear, and all four are locked.
const securebits = 0xef

func dropCapabilities() error {
	for capability := range uintptr(64) {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) {
			break // the kernel knows no further capabilities
		}
		if err != nil {
			return fmt.Errorf("drop capability %d: %w", capability, err)
		}
	}
	if err := unix.Prctl(unix.PR_SET_SECUREBITS, securebits, 0, 0, 0); err != nil {
		return fmt.Errorf("lock capabilities: %w", err)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	return nil
}

func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open socket for loopback: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return fmt.Errorf("name loopback: %w", err)
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request); err != nil {
		return fmt.Errorf("bring loopback up: %w", err)
	}
	return nil
}

// reap waits for the command and returns its exit code. Until then, it also reaps orphaned
// processes.
func reap(command int) (exitCode int, err error) {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return 0, fmt.Errorf("wait for the command: %w", err)
		case pid != command:
			continue
		case status.Signaled():
			return 128 + int(status.Signal()), nil
		}
		return status.ExitStatus(), nil
	}
}
