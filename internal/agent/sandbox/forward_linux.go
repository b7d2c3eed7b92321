package sandbox

import (
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
)

// forward accepts connections on the sandbox's loopback and relays them to the proxy
// outside, until this process ends. TCP cannot leave the network namespace, but the
// proxy's Unix socket is a file that can be bound into the sandbox.
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

// maxForwards is the maximum number of concurrent connections. The proxy outside has its
// own limit.
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

// runForwarded starts the command, relays its connections, and returns its exit code. It
// runs in a process of this program between bubblewrap and the command.
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
