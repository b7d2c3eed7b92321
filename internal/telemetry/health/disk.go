package health

import (
	"fmt"
	"path/filepath"
	"syscall"
)

const (
	// LowDisk is where a warning begins: the log of a busy day fits in it.
	LowDisk = 1 << 30
	// NoDisk is where SQLite soon fails.
	NoDisk = 64 << 20
)

// Disk is the room on a file system.
type Disk struct {
	// Free is in bytes, for this user.
	Free uint64
	// Type is the number of the kind of file system, as statfs has it.
	Type int64
}

// DiskAt looks at the file system of a path, or of the nearest directory that
// exists.
func DiskAt(path string) (Disk, error) {
	var st syscall.Statfs_t
	for {
		err := syscall.Statfs(path, &st)
		if err == nil {
			return Disk{Free: st.Bavail * uint64(st.Bsize), Type: int64(st.Type)}, nil
		}
		parent := filepath.Dir(path)
		if parent == path {
			return Disk{}, fmt.Errorf("look at the disk: %w", err)
		}
		path = parent
	}
}

// Check says whether there is room, as a probe does.
func (d Disk) Check() error {
	switch mib := d.Free >> 20; {
	case d.Free < NoDisk:
		return fmt.Errorf("%d MiB free, the database cannot grow", mib)
	case d.Free < LowDisk:
		return Warn("%d MiB free", mib)
	}
	return nil
}

// network are the kinds of file systems on which locks and syncs of SQLite
// cannot be relied on.
var network = map[int64]string{
	0x6969: "NFS", 0x517b: "SMB", 0xff534d42: "CIFS", 0xfe534d42: "SMB2", 0x01021997: "9P", 0x73757245: "Coda", 0x00c36400: "Ceph", 0x013111a8: "IBRIX",
}

// Network names the network file system, empty if it is local.
func (d Disk) Network() string { return network[d.Type&0xffffffff] }
