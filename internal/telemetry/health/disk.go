package health

import (
	"fmt"
	"path/filepath"

	"lilac/internal/foundation/osfile"
)

const (
	// LowDisk is the free space, in bytes, below which Lilac warns. The log of a busy day
	// fits in it.
	LowDisk = 1 << 30
	// NoDisk is the free space, in bytes, below which Lilac is not ready: SQLite soon fails.
	NoDisk = 64 << 20
)

// Disk is the state of a file system.
type Disk struct {
	// Free is the space that this user may still use, in bytes.
	Free uint64
	// Type is the file system type of statfs(2).
	Type int64
}

// DiskAt returns the file system of a path, or of its nearest existing parent
// directory.
func DiskAt(path string) (Disk, error) {
	for {
		free, kind, err := osfile.Space(path)
		if err == nil {
			return Disk{Free: free, Type: kind}, nil
		}
		parent := filepath.Dir(path)
		if parent == path {
			return Disk{}, fmt.Errorf("read the free disk space: %w", err)
		}
		path = parent
	}
}

// Check returns an error or a warning if there is too little space, as a probe does.
func (d Disk) Check() error {
	switch mib := d.Free >> 20; {
	case d.Free < NoDisk:
		return fmt.Errorf("the disk is full: only %d MiB free, and below %d MiB, Lilac is not ready; free some space", mib, NoDisk>>20)
	case d.Free < LowDisk:
		return Warn("only %d MiB free; below %d MiB, Lilac is not ready", mib, NoDisk>>20)
	}
	return nil
}

// network lists file system types on which SQLite cannot rely on locks and syncs.
var network = map[int64]string{
	0x6969: "NFS", 0x517b: "SMB", 0xff534d42: "CIFS", 0xfe534d42: "SMB2", 0x01021997: "9P", 0x73757245: "Coda", 0x00c36400: "Ceph", 0x013111a8: "IBRIX",
}

// Network returns the name of the network file system, or "" if it is local.
func (d Disk) Network() string { return network[d.Type&0xffffffff] }
