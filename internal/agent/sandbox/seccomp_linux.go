package sandbox

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// forbidden lists system calls that no command needs and that have allowed sandbox escapes
// before. They access other processes, change mounts and namespaces, load code into the
// kernel, or are new with a large attack surface.
var forbidden = []uint32{
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_KCMP, unix.SYS_PIDFD_GETFD, unix.SYS_PROCESS_MADVISE,
	unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD,
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_OPEN_TREE, unix.SYS_OPEN_TREE_ATTR, unix.SYS_MOVE_MOUNT, unix.SYS_MOUNT_SETATTR,
	unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_FANOTIFY_INIT,
	unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_CHROOT,
	unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD,
	unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD, unix.SYS_SYSLOG,
	unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_CLOCK_ADJTIME, unix.SYS_ADJTIMEX,
}

// missing lists system calls that return ENOSYS, as if the kernel did not support them, so
// that programs use alternatives: clone and openat instead of clone3 and openat2, because
// a filter cannot read flags in memory; files in a bounded tmpfs instead of memfds; pipes,
// which are bounded by the descriptors, instead of System V message queues, which no limit
// counts.
var missing = []uint32{unix.SYS_CLONE3, unix.SYS_OPENAT2, unix.SYS_MEMFD_CREATE, unix.SYS_MEMFD_SECRET, unix.SYS_MSGGET}

// modeArg names the argument of a system call that is a file mode.
type modeArg struct{ number, arg uint32 }

// A set-user-ID file in the workspace would let other users of the machine act as Lilac's
// user. So the filter denies such modes: in withMode always, and in withModeIfNew if the
// flags, the argument before the mode, create a file.
var (
	withMode      = []modeArg{{unix.SYS_FCHMOD, 1}, {unix.SYS_FCHMODAT, 2}, {unix.SYS_FCHMODAT2, 2}, {unix.SYS_MKNODAT, 2}}
	withModeIfNew = []modeArg{{unix.SYS_OPENAT, 3}}
	// The older calls that only x86-64 has: chmod, creat, and mknod; open.
	withModeX86      = []modeArg{{90, 1}, {85, 1}, {133, 1}}
	withModeIfNewX86 = []modeArg{{2, 2}}
)

// families lists the socket families that a command may use: those that programs need and
// that a network namespace confines. Other families ignore namespaces (AF_VSOCK reaches the
// host of a virtual machine), or are rarely used and have a large attack surface.
var families = []uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK}

const (
	// asOwner holds the set-user-ID and set-group-ID bits.
	asOwner = unix.S_ISUID | unix.S_ISGID
	// makesFile holds the flags of open that create a file.
	makesFile    = unix.O_CREAT | unix.O_TMPFILE&^unix.O_DIRECTORY
	newNamespace = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
		unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP
	// segmentBytes is the maximum size of one System V shared memory segment. No limit on
	// processes counts these segments, and programs that still use them need only a few
	// bytes.
	segmentBytes = 64 << 10
	// semaphores is the maximum number of semaphores in one System V set. The kernel allows
	// 32,000 sets of 32,000 semaphores, which could use all of the memory.
	semaphores = 32
)

// architecture maps GOARCH to the only architecture whose system calls are allowed.
var architecture = map[string]uint32{
	"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64, "riscv64": unix.AUDIT_ARCH_RISCV64,
}

// x32 marks the system call numbers of the x32 ABI of x86-64.
const x32 = 0x40000000

// Offsets in struct seccomp_data. All architectures above are little-endian, so the lower
// half of an argument comes first.
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetArgs   = 16
)

// seccompFilter returns the BPF program that filters system calls.
func seccompFilter() ([]unix.SockFilter, error) {
	arch, ok := architecture[runtime.GOARCH]
	if !ok {
		return nil, fmt.Errorf("no filter of system calls for %s", runtime.GOARCH)
	}
	load := func(offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
	}
	jump := func(test uint16, k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_K | test, K: k, Jt: yes, Jf: no}
	}
	answer := func(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }
	refuse := func(errno unix.Errno) unix.SockFilter { return answer(unix.SECCOMP_RET_ERRNO | uint32(errno)) }

	program := []unix.SockFilter{load(offsetArch), jump(unix.BPF_JEQ, arch, 1, 0), refuse(unix.ENOSYS), load(offsetNumber)}
	withMode, withModeIfNew := withMode, withModeIfNew
	if arch == unix.AUDIT_ARCH_X86_64 {
		withMode, withModeIfNew = slices.Concat(withMode, withModeX86), slices.Concat(withModeIfNew, withModeIfNewX86)
		program = append(program, jump(unix.BPF_JGE, x32, 0, 1), refuse(unix.ENOSYS))
	}
	for _, number := range forbidden {
		program = append(program, jump(unix.BPF_JEQ, number, 0, 1), refuse(unix.EPERM))
	}
	for _, number := range missing {
		program = append(program, jump(unix.BPF_JEQ, number, 0, 1), refuse(unix.ENOSYS))
	}
	// argument denies a call if a test of the lower half of an argument succeeds.
	argument := func(number, arg uint32, test uint16, k uint32, errno unix.Errno) {
		program = append(program,
			jump(unix.BPF_JEQ, number, 0, 4), load(offsetArgs+8*arg), jump(test, k, 0, 1), refuse(errno), load(offsetNumber))
	}
	argument(unix.SYS_CLONE, 0, unix.BPF_JSET, newNamespace, unix.EPERM)
	argument(unix.SYS_IOCTL, 1, unix.BPF_JEQ, unix.TIOCSTI, unix.EPERM)
	argument(unix.SYS_IOCTL, 1, unix.BPF_JEQ, unix.TIOCLINUX, unix.EPERM)
	argument(unix.SYS_SEMGET, 1, unix.BPF_JGT, semaphores, unix.ENOSPC)
	argument(unix.SYS_SHMGET, 1, unix.BPF_JGT, segmentBytes, unix.ENOMEM)
	for _, call := range withMode {
		argument(call.number, call.arg, unix.BPF_JSET, asOwner, unix.EPERM)
	}
	for _, call := range withModeIfNew {
		program = append(program,
			jump(unix.BPF_JEQ, call.number, 0, 6), load(offsetArgs+8*(call.arg-1)), jump(unix.BPF_JSET, makesFile, 0, 3),
			load(offsetArgs+8*call.arg), jump(unix.BPF_JSET, asOwner, 0, 1), refuse(unix.EPERM), load(offsetNumber))
	}
	program = append(program,
		jump(unix.BPF_JEQ, unix.SYS_SHMGET, 0, 3), load(offsetArgs+8+4), jump(unix.BPF_JEQ, 0, 1, 0), refuse(unix.ENOMEM))
	for _, number := range []uint32{unix.SYS_SOCKET, unix.SYS_SOCKETPAIR} {
		program = append(program, jump(unix.BPF_JEQ, number, 0, uint8(len(families))+3), load(offsetArgs))
		for i, family := range families {
			program = append(program, jump(unix.BPF_JEQ, family, uint8(len(families)-i), 0))
		}
		program = append(program, refuse(unix.EAFNOSUPPORT), load(offsetNumber))
	}
	return append(program, answer(unix.SECCOMP_RET_ALLOW)), nil
}

// encodeFilter encodes a program as an array of struct sock_filter, which bubblewrap reads.
func encodeFilter(program []unix.SockFilter) []byte {
	var out []byte
	for _, f := range program {
		out = binary.NativeEndian.AppendUint16(out, f.Code)
		out = append(out, f.Jt, f.Jf)
		out = binary.NativeEndian.AppendUint32(out, f.K)
	}
	return out
}

// applyFilter installs a program for this thread and its future children.
func applyFilter(program []unix.SockFilter) error {
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return fmt.Errorf("filter system calls: %w", errno)
	}
	return nil
}
