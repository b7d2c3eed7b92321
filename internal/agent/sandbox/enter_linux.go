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

// orders is what the first process of a sandbox is told.
type orders struct {
	Layers []layer
	// Stage is a directory of the machine over which the new root is mounted.
	Stage    string
	Hostname string
	Argv     []string
	Env      []string
	Dir      string
	Limits   Limits
	// Forward says that the socket of a proxy is shown.
	Forward bool
}

// deadly are the signals at which Go ends a process that does not ask for them.
var deadly = []os.Signal{
	unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGILL, unix.SIGTRAP, unix.SIGABRT, unix.SIGBUS, unix.SIGFPE,
	unix.SIGSEGV, unix.SIGTERM, unix.SIGSTKFLT, unix.SIGSYS,
}

// maxOrders bounds the orders; an environment and an argument list are at most 2 MiB each.
const maxOrders = 16 << 20

// news is what is told to the outside, in the words of bubblewrap.
type news struct {
	Started  bool   `json:"started,omitempty"`
	ExitCode *int   `json:"exit-code,omitempty"`
	Error    string `json:"error,omitempty"`
}

// exitNotStarted is what a shell exits with for a command that it cannot run.
const exitNotStarted = 127

func enter() {
	first, forwards := len(os.Args) == 2 && os.Args[1] == argFirst, len(os.Args) > 2 && os.Args[1] == argForward
	if !first && !forwards {
		keepDescriptors()
		return
	}
	// A thread costs the memory of its stack, and there are more of them the more
	// processors there are; where memory is limited Go ends when it gets none.
	runtime.GOMAXPROCS(1)
	if forwards {
		code, err := runForwarded(os.Args[2:])
		if err != nil {
			fmt.Fprintln(os.Stderr, "lilac:", err)
			code = exitNotStarted
		}
		unix.Exit(code)
	}
	// The first process of a namespace is only hit by signals that it handles.
	// To ask for them takes two changes of thread for each, and more from a
	// locked thread.
	signal.Notify(make(chan os.Signal, 1), deadly...)
	// What follows confines a thread; the command is started by the same one.
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

// keepDescriptors keeps the files that this program was given by whoever started
// it, a shell or a service manager, from what it starts: a directory among
// them would be a way out that no mount closes. Where /proc cannot be read
// there is no sandbox either.
func keepDescriptors() {
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, entry := range entries {
		if fd, err := strconv.Atoi(entry.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
}

// beFirst builds the sandbox, runs the command in it and reaps what it leaves.
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
	expendable(0) // as long as /proc can be written
	t := tree{layers: o.Layers}
	if err := t.build(o.Stage); err != nil {
		return 0, err
	}
	// The name is no fence; containers forbid to set one.
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

// reservedPids are the numbers that the kernel gives out once and never again.
const reservedPids = 300

// lock takes every right from this thread that the command must not have. The
// other threads of this process run nothing but the Go runtime; that the
// command cannot reach into them is what PR_SET_DUMPABLE is for.
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

// securebits keep a user 0 from having capabilities: no-root, no fix-up at a
// change of user, none kept, none ambient, and all of that locked.
const securebits = 0xef

func dropCapabilities() error {
	for capability := range uintptr(64) {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) {
			break // the first one that the kernel does not know
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

// reap waits for the command, and on the way for every orphan of its own.
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
