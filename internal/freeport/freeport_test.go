package freeport_test

import (
	"net"
	"testing"

	"lilac/internal/freeport"
)

func TestEachAddressIsGivenOnceAndCanBeListenedOn(t *testing.T) {
	seen := map[string]bool{}
	for range 50 {
		addr := freeport.Loopback(t)
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
