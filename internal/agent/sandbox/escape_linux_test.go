package sandbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"lilac/internal/agent/sandbox"
)

// target holds the resources that the probes try to access.
type target struct {
	Parent   int    // PID of the test process
	Data     string // the data directory
	Abstract string // an abstract Unix socket of the machine
	Port     int    // a TCP port of the machine
	Outside  string // a directory outside the workspace
}

// probe is one attempt to escape. try returns nil if it succeeded.
type probe struct {
	try func(target) error
	// root reports that the unconfined control works for root only, noControl that there is
	// no control, because it would harm the machine or needs a feature that not every
	// machine has.
	root, noControl bool
}

func call(number uintptr, args ...uintptr) error {
	args = append(args, make([]uintptr, 6-len(args))...)
	if _, _, errno := unix.Syscall6(number, args[0], args[1], args[2], args[3], args[4], args[5]); errno != 0 {
		return errno
	}
	return nil
}

func text(s string) uintptr { return uintptr(unsafe.Pointer(unsafe.StringData(s + "\x00"))) }

func read(path string) error {
	data, err := os.ReadFile(path)
	if err == nil && len(data) == 0 {
		return fmt.Errorf("%s is empty", path)
	}
	return err
}

func write(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

func create(dir string) error {
	f, err := os.CreateTemp(dir, "lilac-probe-")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

var probes = map[string]probe{
	"environment of our process":     {try: func(v target) error { return read(fmt.Sprintf("/proc/%d/environ", v.Parent)) }},
	"root of our process":            {try: func(v target) error { return read(fmt.Sprintf("/proc/%d/root%s/token", v.Parent, v.Data)) }},
	"working directory of process 1": {try: func(v target) error { _, err := os.Stat("/proc/1/root" + v.Data); return err }, noControl: true},
	"memory of process 1":            {try: func(target) error { return write("/proc/1/mem") }, noControl: true},
	"data directory":                 {try: func(v target) error { return read(v.Data + "/token") }},
	"data directory by a link": {try: func(v target) error {
		_ = os.Symlink(v.Data, "link")
		return read("link/token")
	}},
	"data directory by a hard link": {try: func(v target) error { return os.Link(v.Data+"/token", "hard") }},
	"data directory by going up":    {try: func(v target) error { return read("../" + filepath.Base(v.Data) + "/token") }},
	"write outside":                 {try: func(v target) error { return os.WriteFile(v.Outside+"/escaped", []byte("x"), 0o644) }},
	"write to the system":           {try: func(target) error { return create("/usr/share") }, root: true},
	"trace our process":             {try: func(v target) error { return unix.PtraceSeize(v.Parent) }, noControl: true},
	"trace a child":                 {try: func(target) error { return start(&syscall.SysProcAttr{Ptrace: true}) }},
	"signal our process":            {try: func(v target) error { return unix.Kill(v.Parent, 0) }},
	"mount":                         {try: func(v target) error { return unix.Mount("tmpfs", ".", "tmpfs", 0, "") }, noControl: true},
	"mount by the new calls":        {try: func(target) error { _, err := unix.Fsopen("tmpfs", 0); return err }, root: true},
	"take a tree of mounts": {try: func(target) error {
		_, err := unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLONE)
		return err
	}, root: true},
	"unmount":                   {try: func(target) error { return unix.Unmount("/tmp", unix.MNT_DETACH) }, noControl: true},
	"change root":               {try: func(target) error { return start(&syscall.SysProcAttr{Chroot: "/"}) }, root: true},
	"new user namespace":        {try: func(target) error { return start(&syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER}) }},
	"new mount namespace":       {try: func(target) error { return start(&syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}) }, root: true},
	"unshare":                   {try: func(target) error { return unix.Unshare(unix.CLONE_SYSVSEM) }},
	"enter another namespace":   {try: func(target) error { return enterNamespace("/proc/self/ns/uts") }, root: true},
	"open a file by its handle": {try: func(target) error { return byHandle() }, root: true},
	"abstract socket": {try: func(v target) error {
		conn, err := net.Dial("unix", v.Abstract)
		if err == nil {
			_ = conn.Close()
		}
		return err
	}},
	"port of the machine": {try: func(v target) error {
		conn, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", v.Port), time.Minute)
		if err == nil {
			_ = conn.Close()
		}
		return err
	}},
	"metadata address": {try: func(target) error {
		conn, err := net.DialTimeout("udp", "169.254.169.254:80", time.Second)
		if err == nil {
			_ = conn.Close()
		}
		return err
	}, noControl: true},
	"name server":   {try: func(target) error { _, err := net.LookupHost("example.com"); return err }, noControl: true},
	"raw packets":   {try: func(target) error { return socket(unix.AF_PACKET, unix.SOCK_RAW) }, root: true},
	"raw addresses": {try: func(target) error { return socket(unix.AF_INET, unix.SOCK_RAW) }, root: true},
	// AF_VSOCK ignores network namespaces, and not every machine has it.
	"host of the virtual machine": {try: func(target) error { return hypervisor() }, noControl: hypervisor() != nil},
	"all memory as semaphores":    {try: func(target) error { return semaphores(32000) }},
	"all memory as messages":      {try: func(target) error { return messages() }},
	"device node":                 {try: func(target) error { return unix.Mknod("disk", unix.S_IFBLK|0o600, 0x800) }, root: true},
	"kernel memory":               {try: func(target) error { return read("/dev/kmsg") }, noControl: true},
	"disk of the host":            {try: func(target) error { return anyOf("/dev/vda", "/dev/sda", "/dev/nvme0n1") }, noControl: true},
	"core pattern":                {try: func(target) error { return write("/proc/sys/kernel/core_pattern") }, root: true},
	"module loader":               {try: func(target) error { return write("/proc/sys/kernel/modprobe") }, noControl: true},
	"sysrq":                       {try: func(target) error { return write("/proc/sysrq-trigger") }, noControl: true},
	"release agent": {try: func(target) error {
		return anyOf("/sys/fs/cgroup/release_agent", "/sys/fs/cgroup/memory/release_agent")
	}, noControl: true},
	"hotplug helper": {try: func(target) error { return write("/sys/kernel/uevent_helper") }, noControl: true},
	"keyring": {try: func(target) error {
		_, err := unix.AddKey("user", "lilac-test", []byte("x"), unix.KEY_SPEC_PROCESS_KEYRING)
		return err
	}},
	"key of another": {try: func(target) error { _, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, true); return err }},
	"bpf": {try: func(target) error {
		return call(unix.SYS_BPF, 0, text(strings.Repeat("\x01\x00\x00\x00\x04\x00\x00\x00\x08\x00\x00\x00\x01\x00\x00\x00", 1)+strings.Repeat("\x00", 100)), 64)
	}, root: true, noControl: true},
	"io_uring": {try: func(target) error {
		return call(unix.SYS_IO_URING_SETUP, 1, text(strings.Repeat("\x00", 120)))
	}, noControl: true},
	"page faults of ours": {try: func(target) error { return call(unix.SYS_USERFAULTFD, 1) }, noControl: true},
	"counters": {try: func(target) error {
		return call(unix.SYS_PERF_EVENT_OPEN, text(strings.Repeat("\x00", 128)), 0, 1<<64-1, 1<<64-1, 0)
	}, noControl: true},
	"kernel log":             {try: func(target) error { _, err := unix.Klogctl(unix.SYSLOG_ACTION_SIZE_BUFFER, nil); return err }, root: true},
	"words on the terminal":  {try: func(target) error { return typeOnTerminal() }, noControl: true},
	"rights of another user": {try: func(target) error { return becomeRoot() }, noControl: true},
	"remount writable":       {try: func(target) error { return unix.Mount("", "/usr", "", unix.MS_REMOUNT|unix.MS_BIND, "") }, noControl: true},
}

// start starts a program with unusual process attributes.
func start(attr *syscall.SysProcAttr) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.Command("/bin/true")
	cmd.SysProcAttr = attr
	if err := cmd.Start(); err != nil {
		return err
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	return nil
}

func enterNamespace(path string) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Setns(fd, 0)
}

func byHandle() error {
	handle, _, err := unix.NameToHandleAt(unix.AT_FDCWD, ".", 0)
	if err != nil {
		return err
	}
	at, err := unix.Open(".", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	fd, err := unix.OpenByHandleAt(at, handle, unix.O_RDONLY)
	if err == nil {
		_ = unix.Close(fd)
	}
	return err
}

func socket(domain, kind int) error { return socketOf(domain, kind, unix.IPPROTO_ICMP) }

func socketOf(domain, kind, protocol int) error {
	fd, err := unix.Socket(domain, kind|unix.SOCK_CLOEXEC, protocol)
	if err == nil {
		_ = unix.Close(fd)
	}
	return err
}

func hypervisor() error { return socketOf(unix.AF_VSOCK, unix.SOCK_STREAM, 0) }

// semaphores creates a System V set of n semaphores.
func semaphores(n uintptr) error {
	set, _, errno := unix.Syscall(unix.SYS_SEMGET, 0, n, 0o600)
	if errno != 0 {
		return errno
	}
	return call(unix.SYS_SEMCTL, set, 0, unix.IPC_RMID)
}

func messages() error {
	queue, _, errno := unix.Syscall(unix.SYS_MSGGET, 0, 0o600, 0)
	if errno != 0 {
		return errno
	}
	return call(unix.SYS_MSGCTL, queue, unix.IPC_RMID)
}

func anyOf(paths ...string) (err error) {
	for _, path := range paths {
		if err = write(path); err == nil {
			return nil
		}
	}
	return err
}

// typeOnTerminal injects a letter into the input of a terminal (TIOCSTI). It uses a new
// terminal, because the test checks only whether the call is denied.
func typeOnTerminal() error {
	tty, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	defer tty.Close()
	letter := "x"
	return call(unix.SYS_IOCTL, tty.Fd(), unix.TIOCSTI, uintptr(unsafe.Pointer(unsafe.StringData(letter))))
}

// becomeRoot looks for a capability that a set-user-ID program or user 0 would give.
func becomeRoot() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return err
	}
	if data[0].Effective|data[0].Permitted|data[0].Inheritable|data[1].Permitted == 0 {
		return errors.New("no capability")
	}
	return nil
}

// runProbes runs every probe and prints the results.
func runProbes(told string) {
	var v target
	if err := json.Unmarshal([]byte(told), &v); err != nil {
		panic(err)
	}
	confined := os.Getenv("LILAC_TEST_CONFINED") == "true"
	out := map[string]string{}
	for name, p := range probes {
		if !confined && (p.noControl || p.root && os.Getuid() != 0) {
			continue
		}
		out[name] = "got out"
		if err := p.try(v); err != nil {
			out[name] = err.Error()
		}
	}
	_ = json.NewEncoder(os.Stdout).Encode(out)
}

func TestNothingGetsOut(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	each(t, func(t *testing.T, box sandbox.Sandbox, confined bool) {
		base := t.TempDir()
		v := target{Parent: os.Getpid(), Data: filepath.Join(base, "data"), Outside: filepath.Join(base, "outside")}
		ws := filepath.Join(base, "ws")
		for _, dir := range []string{v.Data, v.Outside, ws} {
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(v.Data, "token"), []byte("canary"), 0o644); err != nil {
			t.Fatal(err)
		}
		v.Abstract = fmt.Sprintf("@lilac-escape-%d-%s", os.Getpid(), box.Name())
		for network, address := range map[string]string{"unix": v.Abstract, "tcp": "127.0.0.1:0"} {
			listener, err := net.Listen(network, address)
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			if tcp, ok := listener.Addr().(*net.TCPAddr); ok {
				v.Port = tcp.Port
			}
		}
		told, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		program, binds := self, []sandbox.Bind(nil)
		if confined {
			program, binds = "/opt/probe", []sandbox.Bind{{Source: self, Target: "/opt/probe"}}
		}
		var out, errs bytes.Buffer
		_, err = box.Run(t.Context(), sandbox.Command{
			Argv: []string{program}, Stdout: &out, Stderr: &errs, Timeout: time.Minute,
			Env: []string{probeEnv + "=" + string(told), fmt.Sprintf("LILAC_TEST_CONFINED=%t", confined)},
		}, sandbox.Policy{Workspace: ws, Hidden: []string{v.Data}, Binds: binds})
		var results map[string]string
		if err != nil || json.Unmarshal(out.Bytes(), &results) != nil || confined && len(results) != len(probes) {
			t.Fatalf("%v: %s%s", err, out.String(), errs.String())
		}
		if confined {
			// In the sandbox, the write may have gone to the sandbox's own /tmp.
			if _, err := os.Stat(filepath.Join(v.Outside, "escaped")); err == nil {
				t.Error("a file was written outside")
			}
			delete(results, "write outside")
		}
		var wrong []string
		for name, result := range results {
			if (result == "got out") == confined {
				wrong = append(wrong, name+": "+result)
			}
		}
		slices.Sort(wrong)
		if len(wrong) > 0 {
			t.Errorf("confined %t, of %d ways:\n%s", confined, len(results), strings.Join(wrong, "\n"))
		}
	})
}

// A command may use the sockets and System V semaphores that programs usually need.
func TestUsualSocketsAndSemaphoresWork(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	each(t, func(t *testing.T, box sandbox.Sandbox, confined bool) {
		program, binds := self, []sandbox.Bind(nil)
		if confined {
			program, binds = "/opt/probe", []sandbox.Bind{{Source: self, Target: "/opt/probe"}}
		}
		var out bytes.Buffer
		_, err := box.Run(t.Context(), sandbox.Command{Argv: []string{program}, Stdout: &out, Timeout: time.Minute, Env: []string{usualEnv + "=yes"}},
			sandbox.Policy{Workspace: t.TempDir(), Binds: binds})
		if err != nil || out.String() != "works\n" {
			t.Errorf("%v: %s", err, out.String())
		}
	})
}

// useUsual creates one of each.
func useUsual() error {
	var errs []error
	for _, family := range []int{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6} {
		errs = append(errs, socketOf(family, unix.SOCK_STREAM, 0), socketOf(family, unix.SOCK_DGRAM, 0))
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = errors.Join(unix.Close(pair[0]), unix.Close(pair[1]))
	}
	return errors.Join(append(errs, err, socketOf(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE), semaphores(17))...)
}

// A command can read its input but not write to it, because no limit counts that memory.
func TestInputIsNoMemory(t *testing.T) {
	const fill = `cat; head -c 1000000 /dev/zero >&0 && echo filled; head -c 1000000 /dev/zero 2>&1 >/proc/self/fd/0 && echo filled`
	each(t, func(t *testing.T, box sandbox.Sandbox, confined bool) {
		var out bytes.Buffer
		_, err := box.Run(t.Context(), sandbox.Command{Argv: []string{"bash", "-c", fill}, Stdin: []byte("input\n"), Stdout: &out, Timeout: time.Minute},
			sandbox.Policy{Workspace: t.TempDir()})
		if err != nil || !strings.HasPrefix(out.String(), "input\n") || strings.Contains(out.String(), "filled") {
			t.Errorf("%v: %s", err, out.String())
		}
	})
	t.Run("with a file that is not sealed", func(t *testing.T) {
		fd, err := unix.MemfdCreate("control", unix.MFD_CLOEXEC)
		if err != nil {
			t.Fatal(err)
		}
		file := os.NewFile(uintptr(fd), "control")
		defer file.Close()
		cmd := exec.Command("bash", "-c", fill)
		cmd.Stdin = file
		if out, err := cmd.CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "filled\nfilled\n") {
			t.Errorf("%v: %s", err, out)
		}
	})
}

// A command does not inherit file descriptors that Lilac's process inherited. As a control,
// the process itself can use the descriptor.
func TestDescriptorsOfOursAreNotInherited(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "token"), []byte("canary"), 0o600); err != nil {
		t.Fatal(err)
	}
	each(t, func(t *testing.T, box sandbox.Sandbox, _ bool) {
		given, err := os.Open(outside)
		if err != nil {
			t.Fatal(err)
		}
		defer given.Close()
		cmd := exec.Command(self)
		cmd.ExtraFiles = append(make([]*os.File, givenFD-3), given)
		cmd.Env = append(os.Environ(), givenEnv+"="+box.Name(), "LILAC_TEST_WORKSPACE="+t.TempDir())
		if out, err := cmd.CombinedOutput(); err != nil || string(out) != "ours: canary\na command's: \n" {
			t.Errorf("%v: %s", err, out)
		}
	})
}

// givenFD is higher than the descriptors that a sandbox uses.
const givenFD = 40

// useGiven reads a file in the inherited directory, and runs a command that tries the same.
func useGiven(mode string) error {
	path := fmt.Sprintf("/proc/self/fd/%d/token", givenFD)
	ours, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	box, err := sandbox.Open(context.Background(), sandbox.Mode(mode))
	if err != nil {
		return err
	}
	var out bytes.Buffer
	_, err = box.Run(context.Background(), sandbox.Command{Argv: []string{"cat", path}, Stdout: &out, Stderr: &bytes.Buffer{}, Timeout: time.Minute},
		sandbox.Policy{Workspace: os.Getenv("LILAC_TEST_WORKSPACE")})
	fmt.Printf("ours: %s\na command's: %s\n", ours, out.Bytes())
	return err
}
