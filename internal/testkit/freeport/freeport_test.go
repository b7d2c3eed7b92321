package freeport

import (
	"net"
	"runtime"
	"testing"
)

// Two instances of ports behave like two processes: they share no memory.
func TestEachAddressIsGivenOnceAndCanBeListenedOn(t *testing.T) {
	var one, other ports
	t.Cleanup(one.release)
	t.Cleanup(other.release)
	seen := map[string]bool{}
	for range 2 * blockSize {
		for _, p := range []*ports{&one, &other} {
			addr, err := p.take()
			if err != nil {
				t.Fatal(err)
			}
			if seen[addr] {
				t.Errorf("%s was given twice", addr)
			}
			seen[addr] = true
			l, err := net.Listen("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestAPortThatSomebodyHasIsNotGiven(t *testing.T) {
	var p ports
	t.Cleanup(p.release)
	if _, err := p.take(); err != nil {
		t.Fatal(err)
	}
	taken, err := net.Listen("tcp", loopback(p.next))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	addr, err := p.take()
	if err != nil {
		t.Fatal(err)
	}
	if addr == taken.Addr().String() {
		t.Errorf("%s was given although it is taken", addr)
	}
}

// Until it calls exec, a child process has copies of all open files.
func TestAPortIsFreeAlthoughAChildHasACopyOfItsListener(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux shuts down a listener for all who have it: run this there")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	copied, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = copied.Close() }()
	if err := giveBack(l.(*net.TCPListener)); err != nil {
		t.Fatal(err)
	}
	again, err := net.Listen("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}
