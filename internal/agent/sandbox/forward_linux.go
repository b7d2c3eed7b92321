package sandbox

import (
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
)

// forward carries what arrives on the loopback of a sandbox to the proxy
// outside, until this process ends. A network namespace ends at its loopback;
// a Unix socket is a file and can be shown in it.
func forward() error {
	listener, err := net.Listen("tcp4", proxyAddr)
	if err != nil {
		return fmt.Errorf("listen for the network proxy: %w", err)
	}
	go func() {
		free := make(chan struct{}, maxForwards)
		for {
			inside, err := listener.Accept()
			if err != nil {
				return
			}
			free <- struct{}{}
			go func() {
				defer func() { <-free }()
				relay(inside.(*net.TCPConn))
			}()
		}
	}()
	return nil
}

// maxForwards bounds the connections that are carried at a time; the proxy
// outside has a limit of its own.
const maxForwards = 256

func relay(inside *net.TCPConn) {
	defer func() { _ = inside.Close() }()
	conn, err := net.Dial("unix", proxySocket)
	if err != nil {
		return
	}
	outside := conn.(*net.UnixConn)
	defer func() { _ = outside.Close() }()
	var both sync.WaitGroup
	both.Go(func() { _, _ = io.Copy(outside, inside); _ = outside.CloseWrite() })
	both.Go(func() { _, _ = io.Copy(inside, outside); _ = inside.CloseWrite() })
	both.Wait()
}

// runForwarded is this program between bubblewrap and the command: it starts
// the command, carries its connections, and ends with its exit code.
func runForwarded(argv []string) (exitCode int, err error) {
	if err := forward(); err != nil {
		return 0, err
	}
	path, err := lookPath(argv[0], os.Environ())
	if err != nil {
		return 0, err
	}
	pid, err := syscall.ForkExec(path, argv, &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}})
	if err != nil {
		return 0, fmt.Errorf("start %s: %w", path, err)
	}
	return reap(pid)
}
