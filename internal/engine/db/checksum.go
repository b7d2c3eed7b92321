package db

import (
	"errors"
	"fmt"
	"hash/crc32"
	"unsafe"

	"lilac/internal/foundation/fault"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Checksum returns the checksum that a row stores to detect damage: a CRC-32C over the
// parts and their lengths, so that bytes cannot move from one part to the next.
func Checksum(parts ...[]byte) int64 {
	var sum Sum
	for _, p := range parts {
		sum.Add(p)
	}
	return sum.Value()
}

// Sum computes a [Checksum] part by part. The zero value has no parts.
type Sum struct{ crc uint32 }

// Value returns the checksum of the parts so far.
func (s *Sum) Value() int64 { return int64(s.crc) }

// AddText adds a part without copying it.
func (s *Sum) AddText(part string) { s.Add(unsafe.Slice(unsafe.StringData(part), len(part))) }

// Add adds the length of a part, as eight bytes in little-endian order, and the part.
// It computes the length bytes by hand because an argument of [crc32.Update] escapes to
// the heap.
func (s *Sum) Add(part []byte) {
	crc, length := ^s.crc, uint64(len(part))
	for range 8 {
		crc = castagnoli[byte(crc)^byte(length)] ^ crc>>8
		length >>= 8
	}
	s.crc = crc32.Update(^crc, castagnoli, part)
}

// CodeDamagedRow is the code of the fault that [DamagedRow] returns.
const CodeDamagedRow = "damaged_row"

// DamagedRow returns the fault of a row whose checksum does not match. Such a row is
// never served and never removed.
func DamagedRow(table, row string) error {
	return &fault.Error{Kind: fault.Internal, Code: CodeDamagedRow, Message: fmt.Sprintf(
		"The row %s of the table %s is damaged and was not used. Restore the database from a backup.", row, table)}
}

// IsDamaged reports whether an error is the fault of a damaged row or event.
func IsDamaged(err error) bool {
	var f *fault.Error
	return errors.As(err, &f) && f.Code == CodeDamagedRow
}
