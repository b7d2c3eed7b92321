package freeport

import (
	"net"
	"testing"
)

// Two sets of ports are as two processes: they do not share memory.
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
