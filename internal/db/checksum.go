package db

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"lilac/internal/fault"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Checksum is what a row stores to notice damage: a CRC-32C over the parts
// with their lengths, so that bytes cannot move from one part to the next.
func Checksum(parts ...[]byte) int64 {
	var sum uint32
	var size [8]byte
	for _, p := range parts {
		binary.LittleEndian.PutUint64(size[:], uint64(len(p)))
		sum = crc32.Update(sum, castagnoli, size[:])
		sum = crc32.Update(sum, castagnoli, p)
	}
	return int64(sum)
}

// CodeDamagedRow is the code of the fault that [Damaged] returns.
const CodeDamagedRow = "damaged_row"

// Damaged is the fault of a row whose checksum does not fit. The row is never
// served and never removed.
func Damaged(table, row string) error {
	return &fault.Error{Kind: fault.Internal, Code: CodeDamagedRow, Message: fmt.Sprintf(
		"The row %s of the table %s is damaged. It was not used; restore the database from a copy.", row, table)}
}

// IsDamaged reports whether an error is that of a damaged row or event.
func IsDamaged(err error) bool {
	var f *fault.Error
	return errors.As(err, &f) && f.Code == CodeDamagedRow
}
